/// Loading bytes: whatever they are, an ArchiveError or an index that can be searched.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "toolroll/vector_index.hpp"

namespace {

using toolroll::ArchiveReader;
using toolroll::ArchiveWriter;
using toolroll::Hits;
using toolroll::Method;
using toolroll::VectorIndex;

/// A sound index whose payload the input then overwrites, so that the fuzzer gets past the
/// checksum.
std::vector<std::byte> crafted(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHeader = 32;
  const bool whole =
      size > 0 && data[0] % 2 == 0;  // the input is the payload, or edits of a sound one
  std::vector<std::byte> bytes;
  if (whole) {
    ArchiveWriter empty("vectors", 2);
    bytes = empty.bytes();
    bytes.resize(kHeader);
    for (std::size_t i = 1; i < size; ++i) bytes.push_back(std::byte{data[i]});
    bytes.resize(bytes.size() + 8);
  } else {
    static const std::vector<std::byte> sound = [] {
      std::vector<float> vectors(40 * 5);
      for (std::size_t i = 0; i < vectors.size(); ++i) {
        vectors[i] = static_cast<float>((i * 2654435761U) % 1000U) - 500.0F;
      }
      return VectorIndex::build(vectors, 5, {.wanted = true, .m = 3, .ef_construction = 10})
          .bytes();
    }();
    bytes = sound;
    for (std::size_t i = 1; i + 3 <= size; i += 3) {
      const std::size_t at =
          (std::size_t{data[i]} << 8 | data[i + 1]) % (bytes.size() - kHeader - 8);
      bytes[kHeader + at] = std::byte{data[i + 2]};
    }
  }
  const std::size_t end = bytes.size() - 8;
  const std::uint64_t payload = end - kHeader;
  std::memcpy(bytes.data() + kHeader - 8, &payload, sizeof payload);
  const std::uint64_t sum = toolroll::xxh64(std::span(bytes).first(end));
  std::memcpy(bytes.data() + end, &sum, sizeof sum);
  return bytes;
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const VectorIndex index = VectorIndex::from_bytes(crafted(data, size));
    const std::vector<float> query(index.dim(), 1.0F);
    const Hits exact = index.search(query, 5, nullptr, Method::kExact);
    std::vector<std::int32_t> rows;
    for (std::size_t row = 0; row < index.size(); ++row)
      rows.push_back(static_cast<std::int32_t>(row));
    const std::vector<float> scores = index.scores(query, rows);
    for (std::size_t i = 0; i < exact.rows.size(); ++i) {  // the oracle: nothing left out is better
      require(scores[static_cast<std::size_t>(exact.rows[i])] == exact.scores[i]);
    }
    if (exact.rows.size() == 5) {
      std::size_t better = 0;
      for (const float score : scores) better += score > exact.scores.back() && score != 0 ? 1 : 0;
      require(better < 5);
    }
    if (index.has_graph()) {
      for (const std::int32_t row : index.search(query, 5, nullptr, Method::kGraph).rows) {
        require(row >= 0 && static_cast<std::size_t>(row) < index.size());
      }
    }
    require(VectorIndex::from_bytes(index.bytes()).search(query, 5).rows.size() <= 5);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
