/// The terms of a text. Tools of an index and messages are analysed in the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace toolroll {

enum class Analysis : std::uint8_t {
  /// Words, parts of identifiers, stems, bigrams:
  ///  - splits at every character that is neither a letter nor a digit (`_`, `-`, `.`, `/`), within
  ///    camelCase and HTTPServer, and between letters and digits after three or more letters
  ///    (oauth2 -> oauth 2, but s3, ec2, k8s, mp3 stay whole);
  ///  - folds case and full-width letters, and drops the accents of Latin, Greek and Cyrillic
  ///  letters;
  ///  - leaves out English stop words, stems the rest as English (english.hpp);
  ///  - writes a run of Hangul, Han, kana, Thai, Lao, Khmer or Myanmar as its pairs of neighbouring
  ///    characters, because particles attach to words there or no space separates words; a run of
  ///    one character stays.
  kDefault = 0,
  /// Folded words, split at non-word characters.
  kPlain = 1,
};

/// "default" or "plain"; throws std::invalid_argument for another name.
Analysis analysis_of(std::string_view name);

/// The terms of one text, in order, with repetitions. An object that reads many texts reuses its
/// memory.
class Terms {
 public:
  /// Replaces the terms by this text's terms. Any bytes are accepted; ill-formed UTF-8 separates
  /// terms. O(n). Throws std::invalid_argument if the text has 1 GiB or more.
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
