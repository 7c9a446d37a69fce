/// What a text is about, as terms: the same analysis for the tools of an index and for the messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace toolroll {

enum class Analysis : std::uint8_t {
  /// Words, parts of identifiers, stems, bigrams:
  ///  - splits at everything that is no letter or digit, so at `_`, `-`, `.` and `/`; splits camelCase
  ///    and HTTPServer; splits letters from digits where three or more letters stand together
  ///    (oauth2 -> oauth 2, but s3, ec2, k8s, mp3 stay);
  ///  - folds case, and drops the accents of Latin, Greek and Cyrillic letters;
  ///  - leaves out English stop words, stems the rest as English (english.hpp);
  ///  - writes runs of Hangul, Han, kana, Thai, Lao, Khmer and Myanmar as the pairs of neighbours in
  ///    them, since particles attach to words there or no space parts them; a run of one as it is.
  kDefault = 0,
  /// Folded words, split at non-word characters, and nothing else.
  kPlain = 1,
};

/// "default" or "plain"; throws std::invalid_argument for another name.
Analysis analysis_of(std::string_view name);

/// The terms of one text, in order, repeated as in the text. Reused from text to text, it stops allocating.
class Terms {
 public:
  /// Replaces what it holds by the terms of this text. Any bytes are accepted; ill-formed UTF-8 separates.
  /// O(n). Throws std::invalid_argument if the text has 1 GiB or more.
  void read(std::string_view text, Analysis analysis);

  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  void read_plain(std::string_view text);
  std::size_t read_wide_word(std::string_view text, std::size_t begin);
  void add_ascii(std::string_view part);
  void add_wide(std::string_view part);
  void end_term(std::size_t begin);

  std::string bytes_;  // all terms end to end
  std::vector<std::size_t> ends_;
  // Scratch of a word that is not all ASCII.
  std::vector<std::uint8_t> kinds_;
  std::vector<std::size_t> offsets_;
  std::string folded_;
};

}  // namespace toolroll
