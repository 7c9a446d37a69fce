#include "toolroll/cue_classifier.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace toolroll {
namespace {

constexpr std::string_view kApostrophe = "'";
constexpr std::string_view kTypographic = "\xE2\x80\x99";  // U+2019

bool is_letter(char byte) { return byte >= 'a' && byte <= 'z'; }

std::size_t letters_end(std::string_view text, std::size_t at) {
  while (at < text.size() && is_letter(text[at])) ++at;
  return at;
}

/// Calls visit(word) for each word; an apostrophe in it is the plain one.
template <typename Visit>
void each_word(std::string_view text, Visit visit) {
  std::string joined;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_letter(text[at])) {
      ++at;
      continue;
    }
    const std::size_t end = letters_end(text, at);
    const std::string_view rest = text.substr(end);
    const std::size_t mark = rest.starts_with(kApostrophe)    ? kApostrophe.size()
                             : rest.starts_with(kTypographic) ? kTypographic.size()
                                                              : 0;
    const std::size_t second = mark == 0 ? end : letters_end(text, end + mark);
    if (mark == 0 || second == end + mark) {
      visit(text.substr(at, end - at));
      at = end;
      continue;
    }
    joined.assign(text.substr(at, end - at)).append(kApostrophe);
    joined.append(text.substr(end + mark, second - end - mark));
    visit(std::string_view(joined));
    at = second;
  }
}

/// A sum of eight partial sums, in a fixed order.
float dot(const float* one, const float* other, std::size_t size) {
  float sums[8] = {};
  std::size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += one[at + lane] * other[at + lane];
  }
  float sum = 0;
  for (; at < size; ++at) sum += one[at] * other[at];
  for (const float part : sums) sum += part;
  return sum;
}

}  // namespace

CueClassifier::CueClassifier(std::vector<float> of_vector, std::vector<float> bias,
                             std::span<const std::string> cues, std::vector<std::int32_t> of_cues,
                             float unit, std::span<const std::string> opening)
    : of_vector_(std::move(of_vector)),
      bias_(std::move(bias)),
      of_cues_(std::move(of_cues)),
      unit_(unit) {
  if (bias_.empty())
    throw std::invalid_argument("bias: is empty, must have a number for each class");
  if (of_vector_.size() % bias_.size() != 0) {
    throw std::invalid_argument("of_vector: must have a row for each class");
  }
  for (const std::string& cue : cues) cues_.add(cue);
  for (const std::string& word : opening) opening_.add(word);
  if (cues_.size() != cues.size() || of_cues_.size() != cues.size() * bias_.size()) {
    throw std::invalid_argument("of_cues: must have a row for each of the cues, which must differ");
  }
}

std::vector<float> CueClassifier::logits(std::string_view text,
                                         std::span<const float> vector) const {
  if (vector.size() != dim()) throw std::invalid_argument("vector: is of another width");
  std::vector<std::uint32_t> found;
  std::string opening;
  each_word(text, [&](std::string_view word) {
    if (const std::uint32_t cue = cues_.find(word); cue != StringTable::kMissing) {
      found.push_back(cue);
    }
    if (opening.empty() && opening_.find(word) == StringTable::kMissing) {
      opening.push_back('^');
      opening.append(word);
    }
  });
  if (const std::uint32_t cue = cues_.find(opening); cue != StringTable::kMissing) {
    found.push_back(cue);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<float> logits(classes());
  for (std::size_t at = 0; at < logits.size(); ++at) {
    std::int64_t sum = 0;
    for (const std::uint32_t cue : found) sum += of_cues_[cue * logits.size() + at];
    logits[at] = dot(of_vector_.data() + at * dim(), vector.data(), dim()) + bias_[at] +
                 static_cast<float>(sum) * unit_;
  }
  return logits;
}

std::optional<std::size_t> CueClassifier::classify(std::string_view text,
                                                   std::span<const float> vector,
                                                   double least) const {
  if (std::ranges::all_of(vector, [](float number) { return number == 0; })) return std::nullopt;
  const std::vector<float> found = logits(text, vector);
  const auto best = std::ranges::max_element(found);
  double sum = 0;
  for (const float logit : found) sum += std::exp(static_cast<double>(logit) - *best);
  if (1 / sum < least) return std::nullopt;
  return static_cast<std::size_t>(best - found.begin());
}

}  // namespace toolroll
