#include "toolroll/wordpiece.hpp"

#include <array>
#include <string>
#include <thread>

#include "check.hpp"
#include "toolroll/token_table.hpp"

namespace toolroll {
namespace {

constexpr std::array<std::string_view, 6> kVocabulary = {"[UNK]", "rain", "##y", "day", "d", "."};

TEST_CASE("ill-formed bytes are left out") {
  const WordPiece pieces(kVocabulary);
  std::vector<std::int32_t> ids;
  pieces.encode("ra\xFFin \xC3 d\xED\xA0\x80\x61y.", 0, ids);
  CHECK(ids == std::vector<std::int32_t>{1, 3, 5});
}

TEST_CASE("four threads that embed with one table get the same bits") {
  std::vector<std::int8_t> rows(kVocabulary.size() * 16);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::int8_t>(i * 37 % 251 - 125);
  const std::vector<float> scale(kVocabulary.size(), 0.01F);
  const TokenTable table(kVocabulary, rows, scale, 16);
  std::vector<float> expected(16);
  table.embed("Rainy day.", expected);
  std::vector<std::vector<float>> found(4, std::vector<float>(16));
  std::vector<std::thread> threads;
  for (auto& vector : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        table.embed("day zebra " + std::to_string(i), vector);
        table.embed("Rainy day.", vector);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& vector : found) CHECK(vector == expected);
}

}  // namespace
}  // namespace toolroll
