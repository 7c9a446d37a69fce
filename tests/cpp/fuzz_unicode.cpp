// Folds any bytes and checks the laws that hold for all of them.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "toolroll/unicode.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace toolroll;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Folded folded = fold(text);
  std::string buffer;
  demand(fold(text, buffer) == folded.text.size());
  demand(buffer.compare(0, folded.text.size(), folded.text) == 0);

  // A word in front changes nothing, unless the text begins with a mark that joins it.
  const bool joins =
      !text.empty() && (unicode::properties(decode(text, 0).code_point) & unicode::kExtends) != 0;
  demand(joins || fold("...." + std::string(text)).text == "...." + folded.text);

  demand(encode(decode(folded.text)) == folded.text);  // well-formed
  demand(fold(folded.text).text == folded.text);       // folded already
  demand(fold(encode(decode(text))).text == folded.text);

  std::size_t last_start = 0;
  std::size_t last_end = 0;
  for (std::size_t byte = 0; byte <= folded.text.size(); ++byte) {
    const std::size_t start = folded.source(byte);
    const std::size_t end = folded.source_end(byte);
    demand(last_start <= start && start <= size && last_end <= end && end <= size);
    last_start = start;
    last_end = end;
  }
  demand(last_start == size && last_end == size);
  return 0;
}
