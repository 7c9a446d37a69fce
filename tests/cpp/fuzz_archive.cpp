// Archives from anywhere: an arbitrary file, and an arbitrary payload under a right checksum, are
// read as the first bytes of the input say. Whatever comes, ArchiveError is the only way out, and
// what was read is what stands in the payload.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "toolroll/archive.hpp"

namespace {

using toolroll::ArchiveError;
using toolroll::ArchiveReader;
using toolroll::ArchiveWriter;

// The payload read by hand: the oracle.
struct Plain {
  const std::vector<std::byte>& payload;
  std::size_t at = 0;

  template <typename T>
  bool matches(const std::vector<T>& column) {
    std::uint64_t count = 0;
    std::memcpy(&count, payload.data() + at, sizeof count);
    at += sizeof count;
    const bool same =
        count == column.size() &&
        (count == 0 || std::memcmp(payload.data() + at, column.data(), count * sizeof(T)) == 0);
    at += count * sizeof(T);
    return same;
  }
  template <typename T>
  bool matches_aligned(const std::vector<T>& array) {
    std::uint64_t count = 0;
    std::memcpy(&count, payload.data() + at, sizeof count);
    at += sizeof count;
    for (; (32 + at) % 64 != 0; ++at) {  // the payload begins behind 32 bytes
      if (payload[at] != std::byte{0}) return false;
    }
    const bool same =
        count == array.size() &&
        (count == 0 || std::memcmp(payload.data() + at, array.data(), count * sizeof(T)) == 0);
    at += count * sizeof(T);
    return same;
  }
};

void expect(bool fact) {
  if (!fact) std::abort();
}

void read(ArchiveReader reader, const std::vector<std::byte>& payload, const std::uint8_t* steps,
          std::size_t size) {
  Plain plain{payload};
  for (std::size_t i = 0; i < size; ++i) {
    switch (steps[i] % 6) {
      case 0:
        expect(reader.value<std::uint8_t>() == std::to_integer<std::uint8_t>(payload[plain.at]));
        plain.at += 1;
        break;
      case 1:
        expect(plain.matches(reader.column<std::uint64_t>()));
        break;
      case 2:
        expect(plain.matches(reader.column<float>()));
        break;
      case 3: {
        const std::string text = reader.text();
        expect(plain.matches(std::vector<char>(text.begin(), text.end())));
        break;
      }
      case 4: {
        const auto array = reader.array<std::uint16_t>();
        expect(plain.matches_aligned(std::vector<std::uint16_t>(array.begin(), array.end())));
        break;
      }
      default:
        reader.finish();
        expect(plain.at == payload.size());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::size_t steps = size < 8 ? size : 8;
  const auto* const rest = reinterpret_cast<const std::byte*>(data + steps);
  const std::vector<std::byte> payload(rest, rest + (size - steps));
  try {
    read(ArchiveReader(payload, "fuzz", 1), payload, data, 0);
  } catch (const ArchiveError&) {
  }
  ArchiveWriter writer("fuzz", 1);
  for (const std::byte byte : payload) writer.value(std::to_integer<std::uint8_t>(byte));
  try {
    read(ArchiveReader(writer.bytes(), "fuzz", 1), payload, data, steps);
  } catch (const ArchiveError&) {
  }
  return 0;
}
