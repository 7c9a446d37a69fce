/// Classifies a text by its vector and by the words in it that are cues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toolroll/string_table.hpp"

namespace toolroll {

/// Multinomial logistic regression. Immutable; safe to share.
///
/// A word is a run of a to z, and behind an apostrophe a second run: "don't". Each cue counts once,
/// however often its word is there. A cue "^word" is there if the word is the first that is not
/// among those that may come before a request.
class CueClassifier {
 public:
  /// of_vector: classes × dim, row by row. bias: one for each class. of_cues: cues × classes, whole
  /// numbers in `unit`, so that a sum does not depend on its order. opening: the words that may
  /// come before a request. Throws std::invalid_argument if the sizes differ or there is no class.
  CueClassifier(std::vector<float> of_vector, std::vector<float> bias,
                std::span<const std::string> cues, std::vector<std::int32_t> of_cues, float unit,
                std::span<const std::string> opening);

  std::size_t classes() const { return bias_.size(); }
  std::size_t dim() const { return of_vector_.size() / bias_.size(); }

  /// Log-probabilities but for a constant. text: UTF-8 in small letters. vector: of dim(). About
  /// 0.1 µs for a class and 384 dimensions, and 30 ns for a word.
  std::vector<float> logits(std::string_view text, std::span<const float> vector) const;

  /// The most probable class, the first one of equal ones. Nothing if its probability is below
  /// `least`, or if the vector is zero: then nothing is known of the text.
  std::optional<std::size_t> classify(std::string_view text, std::span<const float> vector,
                                      double least) const;

 private:
  std::vector<float> of_vector_, bias_;
  std::vector<std::int32_t> of_cues_;
  StringTable cues_, opening_;
  float unit_;
};

}  // namespace toolroll
