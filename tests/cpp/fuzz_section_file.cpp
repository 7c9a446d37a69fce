// A section file from anywhere, and sections of every kind with an arbitrary payload under a right
// checksum. ArchiveError is the only way out, and what was read can be searched.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "toolroll/bm25.hpp"
#include "toolroll/intents.hpp"
#include "toolroll/section_file.hpp"
#include "toolroll/sorted_strings.hpp"
#include "toolroll/spelling.hpp"
#include "toolroll/vector_index.hpp"

namespace {

using namespace toolroll;

void expect(bool fact) {
  if (!fact) std::abort();
}

// A sound archive whose payload the input edits (place high, place low, value) under a right
// checksum, or a payload that is the input.
template <typename Index>
ArchiveReader crafted(const Index& sound, const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHeader = 32;
  ArchiveWriter writer = sound.archive();
  std::vector<std::byte> bytes = writer.bytes();
  if (size % 2 == 0) {
    bytes.resize(kHeader);
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(std::byte{data[i]});
    bytes.resize(bytes.size() + 8);
  } else {
    for (std::size_t i = 0; i + 3 <= size; i += 3) {
      const std::size_t at =
          (std::size_t{data[i]} << 8 | data[i + 1]) % (bytes.size() - kHeader - 8);
      bytes[kHeader + at] = std::byte{data[i + 2]};
    }
  }
  const std::size_t end = bytes.size() - 8;
  const std::uint64_t payload = end - kHeader;
  std::memcpy(bytes.data() + kHeader - 8, &payload, sizeof payload);
  const std::uint64_t sum = xxh64(std::span(bytes).first(end));
  std::memcpy(bytes.data() + end, &sum, sizeof sum);
  return ArchiveReader(std::move(bytes), Index::kKind, Index::kVersion);
}

const std::vector<std::string_view> kTexts = {"send a mail", "rain tomorrow", "mail the rain", ""};

void read_any(std::uint8_t kind, const std::uint8_t* data, std::size_t size) {
  switch (kind % 4) {
    case 0: {
      static const Field field{kTexts};
      static const Bm25Index sound = Bm25Index::build({&field, 1}, {});
      const Bm25Index index = Bm25Index::read(crafted(sound, data, size));
      std::vector<std::int32_t> all;
      for (std::size_t row = 0; row < index.size(); ++row)
        all.push_back(static_cast<std::int32_t>(row));
      std::vector<float> scores(all.size());
      index.scores("mail rain send", all, scores);
      const Hits hits = index.search("mail rain send", 2, nullptr);
      for (std::size_t i = 0; i < hits.rows.size(); ++i) {
        expect(scores[static_cast<std::size_t>(hits.rows[i])] == hits.scores[i]);
      }
      break;
    }
    case 1: {
      static const Lexicon sound = Lexicon::of_texts(kTexts, std::vector<float>(4, 1.0F));
      const auto lexicon =
          std::make_shared<const Lexicon>(Lexicon::read(crafted(sound, data, size)));
      static_cast<void>(Speller(lexicon, lexicon).corrections("tomorow i sendd a mial"));
      break;
    }
    case 2: {
      static const SortedStrings sound =
          SortedStrings::of(std::vector<std::string_view>{"a", "bc", "d", "efgh"});
      const SortedStrings strings = SortedStrings::read(crafted(sound, data, size));
      for (std::size_t i = 0; i < strings.size(); ++i) {
        expect(strings.find(strings[i]) == static_cast<std::int32_t>(i));
      }
      break;
    }
    default: {
      static const Intents sound =
          Intents::build(std::vector<std::int64_t>{0, 1, 1, 3},
                         std::vector<float>{1, 0, 0, 1, 1, 1}, 2, std::vector<float>{0.5F, 1, 0});
      const Intents intents = Intents::read(crafted(sound, data, size));
      std::vector<std::int32_t> rows(intents.size());
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
      std::vector<float> out(rows.size());
      intents.nearest(std::vector<float>(intents.dim(), 1.0F), rows, out);
    }
  }
}

// The input as a file, after its header's checksum is made right.
void open_any(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  if (size >= 64) {
    const std::uint32_t envelope = 1;
    const std::uint32_t version = 1;
    const std::uint64_t whole = size;
    std::memcpy(bytes.data(), "TOOLSECT", 8);
    std::memcpy(bytes.data() + 8, &envelope, 4);
    std::memcpy(bytes.data() + 12, "fuzz\0\0\0\0", 8);
    std::memcpy(bytes.data() + 20, &version, 4);
    std::memcpy(bytes.data() + 40, &whole, 8);
    std::uint64_t table = 0;
    std::memcpy(&table, bytes.data() + 32, 8);
    Xxh64 hash;
    hash.add(std::span(bytes).first(48));
    if (table <= size) hash.add(std::span(bytes).subspan(static_cast<std::size_t>(table)));
    const std::uint64_t sum = hash.value();
    std::memcpy(bytes.data() + 48, &sum, 8);
  }
  const auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const SectionFile file(*held, held, "fuzz", 1);
  for (const std::string& name : file.names()) {
    expect(file.contains(name));
    try {
      static_cast<void>(file.section(name, "fuzz", 1));
    } catch (const ArchiveError&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    if (data[0] % 8 == 7) {
      open_any(data + 1, size - 1);
    } else {
      read_any(data[0], data + 1, size - 1);
    }
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
