#include "toolroll/unigram.hpp"

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "toolroll/multilingual_table.hpp"

namespace toolroll {
namespace {

constexpr std::array<std::string_view, 4> kEnglish = {"[UNK]", "show", "die", "##y"};
constexpr std::array<std::string_view, 4> kPieces = {"\xE2\x96\x81zeig",
                                                     "\xE2\x96\x81"
                                                     "die",
                                                     "\xE6\x98\xBE\xE7\xA4\xBA", "\xE6\x98\xBE"};
constexpr std::array<float, 4> kScores = {-5, -3, -6, -8};

TEST_CASE("ill-formed bytes part words") {
  const Unigram pieces(kPieces, kScores);
  std::vector<std::int32_t> ids;
  pieces.encode(
      "zeig\xFF"
      "die \xE6\x98\xBE\xE7\xA4\xBA\xE6\x98",
      0, ids);
  CHECK(ids == std::vector<std::int32_t>{0, 1, 2});
}

TEST_CASE("four threads that read with one multilingual table get the same bits") {
  std::vector<std::int8_t> rows(4 * 8);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::int8_t>(i * 37 % 251 - 125);
  const std::vector<float> scale(4, 0.01F);
  const std::array<float, 6> gate = {0, -3, 1, 0, 0.5, -0.5};
  const auto english = std::make_shared<const TokenTable>(kEnglish, rows, scale, 8);
  const MultilingualTable table(english, kPieces, kScores, rows, scale, gate);
  std::vector<float> expected(8);
  table.embed("zeig die \xE6\x98\xBE\xE7\xA4\xBA", expected);
  std::vector<std::vector<float>> found(4, std::vector<float>(8));
  std::vector<std::thread> threads;
  for (auto& vector : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        table.embed("show " + std::to_string(i), vector);
        table.embed("zeig die \xE6\x98\xBE\xE7\xA4\xBA", vector);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& vector : found) CHECK(vector == expected);
}

}  // namespace
}  // namespace toolroll
