// Any bytes have marks: each kind once, a bounded number of endings, ranges within the text, and
// those of two texts are those of both with bytes between them that are in no class.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "toolroll/marks.hpp"

using namespace toolroll;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// The kinds as bits, without endings: these depend on what is before the text.
std::uint32_t kinds(std::string_view text) {
  std::uint32_t found = 0;
  std::size_t endings = 0;
  for (const Mark& mark : find_marks(text)) {
    require(mark.start < mark.end && mark.end <= text.size());
    const std::uint32_t bit = 1U << static_cast<unsigned>(mark.kind);
    if (mark.kind == MarkKind::kEnding) {
      require(text[mark.start] == '.' && ++endings <= kMostEndings);
      continue;
    }
    require((found & bit) == 0);
    found |= bit;
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  kinds(text);
  const std::string_view left = text.substr(0, size / 2);
  const std::string_view right = text.substr(size / 2);
  const std::string apart = std::string(left) + std::string(2, '\0') + std::string(right);
  require(kinds(apart) == (kinds(left) | kinds(right)));
  return 0;
}
