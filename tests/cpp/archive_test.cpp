#include "toolroll/archive.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "toolroll/mapped_file.hpp"

namespace toolroll {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The buffer of the reference implementation's own sanity check.
std::vector<std::byte> sanity_buffer(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t generator = 2654435761U;
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(generator >> 56);
    generator *= 11400714785074694797U;
  }
  return bytes;
}

std::vector<std::byte> sample() {
  ArchiveWriter writer("sample", 3);
  writer.value<std::uint32_t>(7);
  writer.column(std::vector<float>{1.5F, -2.0F});
  writer.column(std::vector<std::int32_t>{});
  writer.text("naïve");
  writer.value(0.25);
  return writer.bytes();
}

void read_sample(ArchiveReader reader) {
  CHECK(reader.value<std::uint32_t>() == 7);
  CHECK(reader.column<float>() == std::vector<float>{1.5F, -2.0F});
  CHECK(reader.column<std::int32_t>().empty());
  CHECK(reader.text() == "naïve");
  CHECK(reader.value<double>() == 0.25);
  reader.finish();
}

// What a section of a mapped file is: memory of somebody else, aligned or not.
struct Section {
  std::vector<std::byte> memory;
  std::span<const std::byte> view;
  std::shared_ptr<const void> owner = std::make_shared<int>(0);

  Section(const std::vector<std::byte>& archive, std::size_t misaligned) {
    memory.resize(archive.size() + 2 * kArrayAlignment);
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    const std::size_t begin =
        (kArrayAlignment - at % kArrayAlignment) % kArrayAlignment + misaligned;
    std::ranges::copy(archive, memory.begin() + static_cast<std::ptrdiff_t>(begin));
    view = std::span(memory).subspan(begin, archive.size());
  }
};

// A file that lies: any payload, under a right checksum.
std::vector<std::byte> forged(const std::vector<std::uint64_t>& payload) {
  ArchiveWriter writer("sample", 3);
  for (const std::uint64_t number : payload) writer.value(number);
  return writer.bytes();
}

// A file of its own in the temporary folder, removed at the end.
struct TemporaryFile {
  std::filesystem::path path;
  explicit TemporaryFile(const std::string& name)
      : path(std::filesystem::temp_directory_path() /
             (name + std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

TEST_CASE("xxh64 gives the published values") {
  CHECK(xxh64(bytes_of("")) == 0xEF46DB3751D8E999U);
  CHECK(xxh64(bytes_of("a")) == 0xD24EC4F1A98C6E5BU);
  CHECK(xxh64(bytes_of("abc")) == 0x44BC2CF5AD770999U);
  CHECK(xxh64(bytes_of("Nobody inspects the spammish repetition")) == 0xFBCEA83C8A378BF1U);
  struct Known {
    std::size_t size;
    std::uint64_t plain, seeded;
  };
  const Known known[] = {
      {0, 0xEF46DB3751D8E999U, 0xAC75FDA2929B17EFU},
      {1, 0xE934A84ADB052768U, 0x5014607643A9B4C3U},
      {4, 0x9136A0DCA57457EEU, 0xCAAB286BD8E9FDB5U},
      {14, 0x8282DCC4994E35C8U, 0xC3BD6BF63DEB6DF0U},
      {32, 0x18B216492BB44B70U, 0xB3F33BDF93ADE409U},
      {101, 0xA51EA2101B2D114CU, 0x6B38A5BBBA1F049CU},
      {222, 0xB641AE8CB691C174U, 0x20CB8AB7AE10C14AU},
  };
  for (const Known& k : known) {
    CAPTURE(k.size);
    CHECK(xxh64(sanity_buffer(k.size)) == k.plain);
    CHECK(xxh64(sanity_buffer(k.size), 2654435761U) == k.seeded);
  }
}

TEST_CASE("what was written is read back, from bytes and from a file") {
  read_sample(ArchiveReader(sample(), "sample", 3));

  const TemporaryFile file("toolroll_archive_");
  ArchiveWriter writer("sample", 3);
  writer.value(42);
  writer.save(file.path.string());
  writer.save(file.path.string());  // over an older one
  ArchiveReader reader = ArchiveReader::load(file.path.string(), "sample", 3);
  CHECK(reader.value<int>() == 42);
  reader.finish();
  CHECK(!std::filesystem::exists(file.path.string() + ".new"));
}

TEST_CASE("an archive cut short or extended anywhere is refused") {
  const std::vector<std::byte> whole = sample();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(
        ArchiveReader({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, "sample",
                      3),
        ArchiveError);
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  CHECK_THROWS_AS(ArchiveReader(longer, "sample", 3), ArchiveError);
}

TEST_CASE("an archive with any bit flipped is refused") {
  const std::vector<std::byte> whole = sample();
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<std::byte> damaged = whole;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CAPTURE(bit);
    CHECK_THROWS_AS(ArchiveReader(damaged, "sample", 3), ArchiveError);
  }
}

TEST_CASE("another kind, version or file is refused with a message that says so") {
  CHECK_THROWS_WITH_AS(ArchiveReader(sample(), "other", 3),
                       "another kind of index: expected 'other'", ArchiveError);
  CHECK_THROWS_AS(ArchiveReader(sample(), "sampl", 3), ArchiveError);
  CHECK_THROWS_AS(ArchiveReader(sample(), "samples and more", 3), ArchiveError);
  CHECK_THROWS_WITH_AS(ArchiveReader(sample(), "sample", 4),
                       "index of version 3, this build reads version 4: build the index again",
                       ArchiveError);
  CHECK_THROWS_AS(ArchiveReader(sanity_buffer(4096), "sample", 3), ArchiveError);
  CHECK_THROWS_AS(ArchiveReader::load("/no/such/folder/index", "sample", 3), ArchiveError);
  const std::string folder = std::filesystem::temp_directory_path().string();
  CHECK_THROWS_AS(ArchiveReader::load(folder, "sample", 3), ArchiveError);
}

TEST_CASE("a column longer than its archive is refused, whatever its length overflows to") {
  for (const std::uint64_t count :
       {std::uint64_t{3}, std::uint64_t{1} << 32, std::uint64_t{1} << 61,
        (std::uint64_t{1} << 61) + 1, std::uint64_t{1} << 63,
        std::numeric_limits<std::uint64_t>::max()}) {
    CAPTURE(count);
    CHECK_THROWS_AS(ArchiveReader(forged({count, 1, 2}), "sample", 3).column<double>(),
                    ArchiveError);
    CHECK_THROWS_AS(
        ArchiveReader(forged({std::max(count, std::uint64_t{17}), 1, 2}), "sample", 3).text(),
        ArchiveError);
  }
}

TEST_CASE("reading past the end and leaving something unread are errors") {
  ArchiveReader reader(forged({5}), "sample", 3);
  CHECK_THROWS_AS(reader.finish(), ArchiveError);
  CHECK(reader.value<std::uint64_t>() == 5);
  CHECK_THROWS_AS(reader.value<std::uint8_t>(), ArchiveError);
  reader.finish();
}

TEST_CASE("a kind has 1 to 8 characters") {
  CHECK_THROWS_AS(ArchiveWriter("", 1), std::invalid_argument);
  CHECK_THROWS_AS(ArchiveWriter("ninechars", 1), std::invalid_argument);
  ArchiveReader(ArchiveWriter("eightchr", 1).bytes(), "eightchr", 1).finish();
}

TEST_CASE("a file that cannot be written is an error and leaves the old one alone") {
  CHECK_THROWS_AS(ArchiveWriter("sample", 1).save("/no/such/folder/index"), std::runtime_error);
}

TEST_CASE("nothing is added to an archive that is sealed") {
  ArchiveWriter writer("sample", 3);
  const std::vector<std::byte> sealed = writer.bytes();
  CHECK(writer.bytes() == sealed);
  CHECK_THROWS_AS(writer.value(1), std::logic_error);
}

TEST_CASE("a checksum does not depend on the pieces that the bytes come in") {
  const std::vector<std::byte> bytes = sanity_buffer(300);
  for (std::size_t first = 0; first < 140; ++first) {
    for (const std::size_t second : {std::size_t{0}, std::size_t{1}, std::size_t{31}, first}) {
      Xxh64 hash(7);
      hash.add(std::span(bytes).first(first));
      hash.add(std::span(bytes).subspan(first, second));
      CHECK(hash.value() == xxh64(std::span(bytes).first(first + second), 7));
      hash.add(std::span(bytes).subspan(first + second));
      CHECK(hash.value() == xxh64(bytes, 7));
    }
  }
}

TEST_CASE("an array is a view of the archive's memory, and keeps it") {
  const std::vector<float> numbers = {1.5F, -2.0F, 0.25F};
  ArchiveWriter writer("sample", 3);
  writer.value<std::uint8_t>(1);
  writer.array(std::span<const float>(numbers));
  writer.array(std::span<const std::int32_t>());
  writer.value<std::uint8_t>(2);
  const std::vector<std::byte> archive = writer.bytes();
  CHECK(archive.size() == writer.size());

  for (const std::size_t misaligned : {0, 1, 4}) {
    Section section(archive, misaligned);
    const std::weak_ptr<const void> memory = section.owner;
    ArchiveReader reader(section.view, std::move(section.owner), "sample", 3);
    CHECK(reader.value<std::uint8_t>() == 1);
    SharedArray<float> read = reader.array<float>();
    CHECK(reader.array<std::int32_t>().empty());
    CHECK(reader.value<std::uint8_t>() == 2);
    reader.finish();
    CHECK(read == SharedArray<float>(numbers));
    const auto* const at = reinterpret_cast<const std::byte*>(read.data());
    const bool is_view =
        at >= section.memory.data() && at < section.memory.data() + section.memory.size();
    CHECK(is_view == (misaligned % sizeof(float) == 0));
    CHECK((read.memory_bytes() == 0) == is_view);
    reader = ArchiveReader(archive, "sample", 3);  // lets go of the section
    CHECK(memory.expired() == !is_view);
    const SharedArray<float> copy = read;
    read = {};
    CHECK(copy == SharedArray<float>(numbers));
  }
}

TEST_CASE("an array that is out of its place or longer than its file is refused") {
  ArchiveWriter writer("sample", 3);
  writer.value<std::uint64_t>(1);           // its length
  writer.value<std::uint64_t>(~0ULL << 8);  // no padding
  for (int i = 0; i < 16; ++i) writer.value<std::uint64_t>(0);
  CHECK_THROWS_AS(ArchiveReader(writer.bytes(), "sample", 3).array<float>(), ArchiveError);
  for (const std::uint64_t length : {std::uint64_t{1} << 62, std::uint64_t{100}}) {
    ArchiveWriter longer("sample", 3);
    longer.value(length);
    for (int i = 0; i < 12; ++i) longer.value<std::uint64_t>(0);
    CHECK_THROWS_AS(ArchiveReader(longer.bytes(), "sample", 3).array<double>(), ArchiveError);
  }
  ArchiveWriter ends("sample", 3);
  ends.value<std::uint64_t>(0);
  CHECK_THROWS_AS(ArchiveReader(ends.bytes(), "sample", 3).array<double>(), ArchiveError);
}

TEST_CASE("a mapped file is read as it was opened, whatever takes its place") {
  const TemporaryFile file("mapped");
  ArchiveWriter first("sample", 3);
  first.value<std::uint32_t>(1);
  first.save(file.path.string());
  const MappedFile::Bytes mapped = MappedFile::open(file.path.string());
  ArchiveWriter second("sample", 3);
  second.value<std::uint64_t>(2);
  second.save(file.path.string());
  CHECK(ArchiveReader(mapped.view, mapped.owner, "sample", 3).value<std::uint32_t>() == 1);
  const MappedFile::Bytes again = MappedFile::open(file.path.string());
  CHECK(ArchiveReader(again.view, again.owner, "sample", 3).value<std::uint64_t>() == 2);
}

TEST_CASE("what is no regular file cannot be mapped") {
  CHECK_THROWS_AS(MappedFile::open("/no/such/file"), std::runtime_error);
  CHECK_THROWS_AS(MappedFile::open(std::filesystem::temp_directory_path().string()),
                  std::runtime_error);
  const TemporaryFile empty("empty");
  std::ofstream(empty.path, std::ios::binary).close();
  CHECK(MappedFile::open(empty.path.string()).view.empty());
}

}  // namespace
}  // namespace toolroll
