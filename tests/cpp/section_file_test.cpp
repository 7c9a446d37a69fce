#include "toolroll/section_file.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "toolroll/bm25.hpp"
#include "toolroll/intents.hpp"
#include "toolroll/sorted_strings.hpp"
#include "toolroll/spelling.hpp"
#include "toolroll/vector_index.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kHeader = 64;

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("toolroll-sections-" + name)).string();
}

std::vector<std::byte> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

SectionFile opened(std::vector<std::byte> bytes, std::uint32_t version = 3) {
  auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return SectionFile(*held, held, "sample", version);
}

ArchiveWriter archive_of(std::uint32_t number, std::span<const float> numbers) {
  ArchiveWriter archive("part", 1);
  archive.value(number);
  archive.array(numbers);
  return archive;
}

// Two sections, one of which takes more than a page.
std::vector<std::byte> sample() {
  const std::string path = temporary("sample");
  const std::vector<float> many(3000, 0.5F);
  SectionWriter writer(path, "sample", 3);
  ArchiveWriter first = archive_of(7, many);
  ArchiveWriter second = archive_of(8, {});
  writer.add("first", first);
  writer.add("second", second);
  writer.finish();
  CHECK_THROWS_AS(writer.add("late", second), std::logic_error);
  std::vector<std::byte> bytes = content_of(path);
  std::filesystem::remove(path);
  return bytes;
}

// Overwrites what the header's checksum covers, and corrects the checksum.
void seal(std::vector<std::byte>& bytes) {
  std::uint64_t table = 0;
  std::memcpy(&table, bytes.data() + 32, sizeof table);
  Xxh64 hash;
  hash.add(std::span(bytes).first(48));
  if (table <= bytes.size()) hash.add(std::span(bytes).subspan(table));
  const std::uint64_t sum = hash.value();
  std::memcpy(bytes.data() + 48, &sum, sizeof sum);
}

template <typename T>
void put(std::vector<std::byte>& bytes, std::size_t at, T number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

TEST_CASE("sections are found by name and keep the file's memory") {
  auto held = std::make_shared<const std::vector<std::byte>>(sample());
  const std::weak_ptr<const void> memory = held;
  SharedArray<float> numbers;
  {
    const SectionFile file(*held, held, "sample", 3);
    held.reset();
    CHECK(file.names() == std::vector<std::string>{"first", "second"});
    CHECK(file.contains("second"));
    CHECK(!file.contains("third"));
    ArchiveReader first = file.section("first", "part", 1);
    CHECK(first.value<std::uint32_t>() == 7);
    numbers = first.array<float>();
    first.finish();
    CHECK(numbers.size() == 3000);
    CHECK_THROWS_AS(file.section("third", "part", 1), ArchiveError);
    CHECK_THROWS_AS(file.section("first", "other", 1), ArchiveError);
    CHECK_THROWS_AS(file.section("first", "part", 2), ArchiveError);
  }
  CHECK(!memory.expired());
  CHECK(numbers[2999] == 0.5F);
  numbers = {};
  CHECK(memory.expired());
}

TEST_CASE("every byte of a section file is covered by a checksum or must be zero") {
  const std::vector<std::byte> whole = sample();
  const auto read = [](std::vector<std::byte> bytes) {
    const SectionFile file = opened(std::move(bytes));
    for (const std::string& name : file.names()) static_cast<void>(file.section(name, "part", 1));
  };
  (void)read(whole);
  for (std::size_t at = 0; at < whole.size(); at += at < 2 * kHeader ? 1 : 37) {
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{4};
    CHECK_THROWS_AS(read(damaged), ArchiveError);
  }
  for (std::size_t size = 0; size < whole.size(); size += size < 2 * kHeader ? 1 : 501) {
    CHECK_THROWS_AS(read({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}),
                    ArchiveError);
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  CHECK_THROWS_AS(read(longer), ArchiveError);
  CHECK_THROWS_WITH_AS(opened(whole, 4),
                       "is of version 3, this build reads version 4: build it again", ArchiveError);
  CHECK_THROWS_AS(SectionFile(whole, nullptr, "another", 3), ArchiveError);
}

TEST_CASE("a table that lies under a right checksum is refused") {
  const std::vector<std::byte> whole = sample();
  std::uint64_t table = 0;
  std::memcpy(&table, whole.data() + 32, sizeof table);
  const auto place = static_cast<std::size_t>(table);
  const auto refused = [&](auto change) {
    std::vector<std::byte> crafted = whole;
    change(crafted);
    seal(crafted);
    CHECK_THROWS_AS(opened(std::move(crafted)), ArchiveError);
  };
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63,
                                     ~std::uint64_t{0}, std::uint64_t{8192}}) {
    for (const std::size_t at : {place + 24, place + 32, place + 64, place + 72}) {
      std::uint64_t before = 0;
      std::memcpy(&before, whole.data() + at, sizeof before);
      if (number != before) refused([&](auto& bytes) { put(bytes, at, number); });
    }
    refused([&](auto& bytes) { put(bytes, 32, number); });  // the table
    refused([&](auto& bytes) { put(bytes, 40, number); });  // the size
    refused([&](auto& bytes) {
      put(bytes, 24, static_cast<std::uint32_t>(number) | 64U);
    });  // sections
  }
  refused([&](auto& bytes) { std::memcpy(bytes.data() + place + 40, bytes.data() + place, 24); });
}

// UndefinedBehaviorSanitizer of g++ reports a null pointer for fwrite, that of clang does not.
TEST_CASE("nothing is written where there are no bytes, not even from a null pointer") {
  const std::string path = temporary("empty");
  SectionWriter(path, "sample", 3).finish();  // a table without entries
  CHECK(opened(content_of(path)).names().empty());
  SectionWriter writer(path, "sample", 3);
  ArchiveWriter nothing("part", 1);
  writer.add("nothing", nothing);
  ArchiveWriter arrays("part", 1);
  arrays.array(std::span<const float>());
  writer.add("arrays", arrays);
  writer.finish();
  const SectionFile file = opened(content_of(path));
  file.section("nothing", "part", 1).finish();
  CHECK(file.section("arrays", "part", 1).array<float>().size() == 0);
  std::filesystem::remove(path);
}

TEST_CASE("a section's name is new and short") {
  const std::string path = temporary("names");
  SectionWriter writer(path, "sample", 3);
  ArchiveWriter part = archive_of(1, {});
  writer.add("a name of 24 characters.", part);
  CHECK_THROWS_AS(writer.add("a name of 24 characters.", part), std::invalid_argument);
  CHECK_THROWS_AS(writer.add("a name of 25 characters..", part), std::invalid_argument);
  CHECK_THROWS_AS(writer.add("", part), std::invalid_argument);
  writer.finish();
  const SectionFile file = SectionFile::open(path, "sample", 3);
  CHECK(file.contains("a name of 24 characters."));
  std::filesystem::remove(path);
  CHECK_THROWS_AS(SectionWriter("/no/such/folder/file", "sample", 3), std::runtime_error);
  CHECK_THROWS_AS(SectionFile::open(path, "sample", 3), std::runtime_error);
}

TEST_CASE("sorted strings are found as in a list") {
  std::vector<std::string_view> texts = {"", "a", "ab", "b", "\xC3\xA9", "\xFF"};
  const SortedStrings strings = SortedStrings::of(texts);
  ArchiveWriter archive = strings.archive();
  const SortedStrings loaded =
      SortedStrings::read(ArchiveReader(archive.bytes(), SortedStrings::kKind, 1));
  for (const SortedStrings* each : {&strings, &loaded}) {
    REQUIRE(each->size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CHECK((*each)[i] == texts[i]);
      CHECK(each->find(texts[i]) == static_cast<std::int32_t>(i));
    }
    for (const std::string_view absent : {"aa", "c", "abc", "\xFE"}) CHECK(!each->find(absent));
  }
  CHECK(!SortedStrings::of({}).find(""));
  std::swap(texts[1], texts[2]);
  CHECK_THROWS_AS(SortedStrings::of(texts), std::invalid_argument);
  texts[1] = texts[2];
  CHECK_THROWS_AS(SortedStrings::of(texts), std::invalid_argument);
}

template <typename Index, typename Use>
void survives_wrong_numbers(const Index& index, Use use) {
  ArchiveWriter writer = index.archive();
  const std::vector<std::byte> whole = writer.bytes();
  std::mt19937 bits(8);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> crafted = whole;
    for (int edits = i % 3; edits >= 0; --edits) {
      crafted[32 + bits() % (crafted.size() - 40)] =
          static_cast<std::byte>(i % 2 == 0 ? 0xFF : bits());
    }
    const std::size_t end = crafted.size() - 8;
    const std::uint64_t sum = xxh64(std::span(crafted).first(end));
    std::memcpy(crafted.data() + end, &sum, sizeof sum);
    try {
      use(Index::read(ArchiveReader(std::move(crafted), Index::kKind, Index::kVersion)));
    } catch (const std::invalid_argument&) {
    }
  }
}

TEST_CASE("each index with wrong numbers under a right checksum is an error or harmless") {
  const std::vector<std::string_view> texts = {"send a mail", "rain tomorrow", "mail the rain",
                                               "book a table"};
  const Field field{texts};
  survives_wrong_numbers(Bm25Index::build({&field, 1}, {}), [](const Bm25Index& index) {
    for (const std::int32_t row : index.search("mail rain book", 3, nullptr).rows) {
      CHECK(static_cast<std::size_t>(row) < index.size());
    }
  });
  const std::vector<float> weights(texts.size(), 1.0F);
  survives_wrong_numbers(Lexicon::of_texts(texts, weights), [](const Lexicon& lexicon) {
    static_cast<void>(lexicon.knows_words_of("tomorow mial rain"));
  });
  survives_wrong_numbers(SortedStrings::of(std::vector<std::string_view>{"a", "bc", "d"}),
                         [](const SortedStrings& strings) {
                           for (const char* text : {"a", "bc", "zz", ""}) {
                             static_cast<void>(strings.find(text));
                           }
                         });
  const std::vector<std::int64_t> begins = {0, 1, 1, 3};
  const std::vector<float> vectors = {1, 0, 0, 1, 1, 1};
  const std::vector<float> shares = {0.5F, 1, 0};
  survives_wrong_numbers(Intents::build(begins, vectors, 2, shares), [](const Intents& intents) {
    std::vector<std::int32_t> rows(intents.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
    std::vector<float> out(rows.size());
    intents.nearest(std::vector<float>(intents.dim(), 1.0F), rows, out);
  });
}

}  // namespace
}  // namespace toolroll
