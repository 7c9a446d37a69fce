// What was learnt, from anywhere: an arbitrary payload under a right checksum, and a sound archive
// with bytes of its payload changed. Whatever comes, ArchiveError is the only way out, and what was
// read can be read from, folded into and written again.
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "toolroll/archive.hpp"
#include "toolroll/learned.hpp"
#include "toolroll/slate.hpp"

namespace {

using namespace toolroll;

constexpr std::size_t kHeader = 8 + 4 + 8 + 4 + 8;

const std::vector<std::byte>& sound() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<Delta> deltas;
    for (std::uint64_t i = 0; i < 12; ++i) {
      deltas.push_back({1e9 + static_cast<double>(i), 1, 2 + i % 2, 4 + i % 3, 9, 10 + i % 3,
                        20 + i % 3, i % 4 == 0 ? 30U : 0U, 0.0, 1.0, 1.0, 0.3,
                        static_cast<std::int32_t>(i % 2), -1, 1.0, i});
    }
    return Learned(2).fold(deltas, std::vector<float>{1, 0, 0, 1}).bytes();
  }();
  return bytes;
}

void read(std::vector<std::byte> payload) {
  ArchiveWriter writer("learned", 5);
  for (const std::byte byte : payload) writer.value(std::to_integer<std::uint8_t>(byte));
  try {
    Learned learned = Learned::from_bytes(writer.bytes());
    const Delta delta{2e9, 1, 2, 4, 9, 10, 20, 0, 1.0, 0.0, 1.0, 0.1, -1, 1, 0.0, 3};
    learned = learned.fold({&delta, 1}, {});
    const ToolKeys keys({10, 11}, {20, 21}, {30, 0});
    const std::array<std::int32_t, 2> rows{0, 1};
    const std::array<float, 2> scores{1, 0};
    const std::array<std::uint8_t, 2> core{};
    std::array<std::int32_t, 2> order;
    std::array<float, 2> score, mean, sd, show;
    std::array<Placement, 2> placement;
    rank(learned, keys, {rows, scores, {}, core}, {1, 2, 4}, 2e9, 5, 1, 1.0, {},
         {order, score, mean, sd, show, placement});
    (void)learned.vector(20, 2e9);
    (void)learned.rows(Learned());
    (void)learned.alarms();
    (void)learned.bytes();
    const Learned nothing(learned.dim(), learned.rates());
    (void)nothing.with_rows(learned.rows(nothing), learned.revision()).bytes();
  } catch (const ArchiveError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  read({bytes, bytes + size});
  std::vector<std::byte> payload(sound().begin() + kHeader, sound().end() - 8);
  for (std::size_t i = 0; i + 3 <= size; i += 3) {
    const std::size_t at = (std::size_t{data[i]} << 8 | data[i + 1]) % payload.size();
    payload[at] = bytes[i + 2];
  }
  read(std::move(payload));
  LearnedRows rows = Learned::from_bytes(sound()).rows(Learned(2));
  for (std::size_t i = 0; i + 3 <= size; i += 3) {
    std::vector<std::byte>& state = rows.records[data[i] % rows.records.size()].state;
    if (!state.empty()) state[data[i + 1] % state.size()] = bytes[i + 2];
  }
  try {
    (void)Learned(2).with_rows(rows, 1).bytes();
  } catch (const ArchiveError&) {
  }
  return 0;
}
