#include "toolroll/english.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace toolroll {
namespace {

using namespace std::string_view_literals;

// Words whose stem the rules would get wrong, with the right one.
struct Exception {
  std::string_view word;
  std::string_view stem;
};
constexpr std::array kExceptions = {
    Exception{"andes", "andes"},   Exception{"atlas", "atlas"},  Exception{"bias", "bias"},
    Exception{"cosmos", "cosmos"}, Exception{"early", "earli"},  Exception{"gently", "gentl"},
    Exception{"howe", "howe"},     Exception{"idly", "idl"},     Exception{"news", "news"},
    Exception{"only", "onli"},     Exception{"singly", "singl"}, Exception{"skies", "sky"},
    Exception{"skis", "ski"},      Exception{"sky", "sky"},      Exception{"ugly", "ugli"},
};
// Beginnings after which the first region starts, wherever the vowels are.
constexpr std::array kLongBeginnings = {"arsen"sv, "commun"sv, "emerg"sv, "gener"sv,  "inter"sv,
                                        "later"sv, "organ"sv,  "past"sv,  "univers"sv};

struct Rule {
  std::string_view suffix;
  std::string_view instead;
};
// The longest suffix decides, so longer ones stand first.
constexpr std::array kStep2 = {
    Rule{"ization", "ize"}, Rule{"ational", "ate"}, Rule{"fulness", "ful"}, Rule{"ousness", "ous"},
    Rule{"iveness", "ive"}, Rule{"tional", "tion"}, Rule{"biliti", "ble"},  Rule{"lessli", "less"},
    Rule{"entli", "ent"},   Rule{"ation", "ate"},   Rule{"alism", "al"},    Rule{"aliti", "al"},
    Rule{"ousli", "ous"},   Rule{"iviti", "ive"},   Rule{"fulli", "ful"},   Rule{"ogist", "og"},
    Rule{"enci", "ence"},   Rule{"anci", "ance"},   Rule{"abli", "able"},   Rule{"izer", "ize"},
    Rule{"ator", "ate"},    Rule{"alli", "al"},     Rule{"bli", "ble"},     Rule{"ogi", "og"},
    Rule{"li", ""},
};
constexpr std::array kStep3 = {
    Rule{"ational", "ate"}, Rule{"tional", "tion"}, Rule{"alize", "al"},
    Rule{"icate", "ic"},    Rule{"iciti", "ic"},    Rule{"ative", ""},
    Rule{"ical", "ic"},     Rule{"ness", ""},       Rule{"ful", ""},
};
constexpr std::array kStep4 = {"ement"sv, "ance"sv, "ence"sv, "able"sv, "ible"sv, "ment"sv,
                               "ant"sv,   "ent"sv,  "ism"sv,  "ate"sv,  "iti"sv,  "ous"sv,
                               "ive"sv,   "ize"sv,  "ion"sv,  "al"sv,   "er"sv,   "ic"sv};

constexpr bool is_one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}
// Inside, a capital Y is the consonant: at the beginning of a word and after a vowel.
constexpr bool is_vowel(char c) { return is_one_of(c, "aeiouy"); }

class Stemmer {
 public:
  explicit Stemmer(std::span<char> word) : word_(word.data()), size_(word.size()) {}

  std::size_t run() {
    mark_consonants();
    mark_regions();
    plurals();
    past_and_gerund();
    final_y();
    step2();
    step3();
    step4();
    step5();
    std::replace(word_, word_ + size_, 'Y', 'y');
    return size_;
  }

 private:
  std::string_view word() const { return {word_, size_}; }
  bool ends(std::string_view suffix) const { return word().ends_with(suffix); }
  bool has_vowel_before(std::size_t end) const { return std::any_of(word_, word_ + end, is_vowel); }
  // Never longer than what it replaces but by an e that a cut before it made room for.
  void replace(std::size_t cut, std::string_view instead) {
    size_ -= cut;
    std::memcpy(word_ + size_, instead.data(), instead.size());
    size_ += instead.size();
  }

  void mark_consonants() {
    for (std::size_t i = 0; i < size_; ++i) {
      if (word_[i] == 'y' && (i == 0 || is_vowel(word_[i - 1]))) word_[i] = 'Y';
    }
  }
  // Where the rest begins behind the first consonant that follows a vowel.
  std::size_t region(std::size_t from) const {
    while (from < size_ && !is_vowel(word_[from])) ++from;
    while (from < size_ && is_vowel(word_[from])) ++from;
    return std::min(from + 1, size_);
  }
  void mark_regions() {
    r1_ = 0;
    for (const std::string_view beginning : kLongBeginnings) {
      if (word().starts_with(beginning)) r1_ = beginning.size();
    }
    if (r1_ == 0) r1_ = region(0);
    r2_ = region(r1_);
  }
  // Whether word[0, end) ends in a short syllable.
  bool is_short_before(std::size_t end) const {
    if (end >= 3 && !is_one_of(word_[end - 1], "aeiouywxY") && is_vowel(word_[end - 2]) &&
        !is_vowel(word_[end - 3])) {
      return true;
    }
    if (end == 2 && !is_vowel(word_[1]) && is_vowel(word_[0])) return true;
    return word().substr(0, end).ends_with("past");
  }

  void plurals() {
    if (ends("sses")) {
      replace(2, "");
    } else if (ends("ied") || ends("ies")) {
      replace(size_ > 4 ? 2 : 1, "");
    } else if (ends("s") && !ends("us") && !ends("ss") && size_ >= 2 &&
               has_vowel_before(size_ - 2)) {
      replace(1, "");
    }
  }

  void past_and_gerund() {
    for (const std::string_view suffix : {"eedly"sv, "eed"sv}) {
      if (!ends(suffix)) continue;
      const std::size_t stem = size_ - suffix.size();
      const std::string_view before = word().substr(0, stem);
      const bool stays = before == "proc" || before == "exc" || before == "succ";
      if (stem >= r1_ && !stays) replace(suffix.size(), "ee");
      return;
    }
    for (const std::string_view suffix : {"ingly"sv, "edly"sv, "ing"sv, "ed"sv}) {
      if (!ends(suffix)) continue;
      const std::size_t stem = size_ - suffix.size();
      if (suffix == "ing") {
        const std::string_view before = word().substr(0, stem);
        for (const std::string_view noun :
             {"even"sv, "cann"sv, "inn"sv, "earr"sv, "herr"sv, "out"sv}) {
          if (before == noun) return;
        }
        if (stem == 2 && (word_[1] == 'y') && !is_vowel(word_[0])) {  // dying, lying, tying
          replace(4, "ie");
          return;
        }
      }
      if (has_vowel_before(stem)) {
        replace(suffix.size(), "");
        complete_stem();
      }
      return;
    }
  }
  // Adds a letter that the cut of -ed or -ing removed wrongly, or removes one that it left.
  void complete_stem() {
    if (ends("at") || ends("bl") || ends("iz")) {
      replace(0, "e");
    } else if (size_ >= 2 && word_[size_ - 1] == word_[size_ - 2] &&
               is_one_of(word_[size_ - 1], "bdfgmnprt")) {
      if (size_ == 3 && is_one_of(word_[0], "aeo")) return;  // add, egg, off
      replace(1, "");
    } else if (size_ == r1_ && is_short_before(size_)) {
      replace(0, "e");
    }
  }

  void final_y() {
    if (size_ > 2 && is_one_of(word_[size_ - 1], "yY") && !is_vowel(word_[size_ - 2])) {
      word_[size_ - 1] = 'i';
    }
  }

  void step2() {
    for (const auto& [suffix, instead] : kStep2) {
      if (!ends(suffix)) continue;
      const std::size_t stem = size_ - suffix.size();
      if (stem < r1_) return;
      if (suffix == "ogi" && (stem == 0 || word_[stem - 1] != 'l')) return;
      if (suffix == "li" && (stem == 0 || !is_one_of(word_[stem - 1], "cdeghkmnrt"))) return;
      return replace(suffix.size(), instead);
    }
  }
  void step3() {
    for (const auto& [suffix, instead] : kStep3) {
      if (!ends(suffix)) continue;
      if (size_ - suffix.size() < (suffix == "ative" ? r2_ : r1_)) return;
      return replace(suffix.size(), instead);
    }
  }
  void step4() {
    for (const std::string_view suffix : kStep4) {
      if (!ends(suffix)) continue;
      const std::size_t stem = size_ - suffix.size();
      if (stem < r2_) return;
      if (suffix == "ion" && (stem == 0 || !is_one_of(word_[stem - 1], "st"))) return;
      return replace(suffix.size(), "");
    }
  }
  void step5() {
    if (size_ == 0) return;
    const std::size_t stem = size_ - 1;
    if (word_[stem] == 'e') {
      if (stem >= r2_ || (stem >= r1_ && !is_short_before(stem))) size_ = stem;
    } else if (word_[stem] == 'l' && stem >= r2_ && stem > 0 && word_[stem - 1] == 'l') {
      size_ = stem;
    }
  }

  char* word_;
  std::size_t size_;
  std::size_t r1_ = 0;  // Porter's regions, as offsets
  std::size_t r2_ = 0;
};

constexpr std::array kStopWords = {
    "a"sv,     "am"sv,   "an"sv,    "and"sv,   "any"sv,    "are"sv,     "aren"sv,  "as"sv,
    "at"sv,    "be"sv,   "been"sv,  "but"sv,   "by"sv,     "can"sv,     "could"sv, "couldn"sv,
    "d"sv,     "did"sv,  "didn"sv,  "do"sv,    "does"sv,   "doesn"sv,   "don"sv,   "for"sv,
    "from"sv,  "had"sv,  "hadn"sv,  "has"sv,   "hasn"sv,   "have"sv,    "haven"sv, "he"sv,
    "hello"sv, "her"sv,  "hey"sv,   "hi"sv,    "him"sv,    "his"sv,     "how"sv,   "i"sv,
    "if"sv,    "im"sv,   "in"sv,    "into"sv,  "is"sv,     "isn"sv,     "it"sv,    "its"sv,
    "just"sv,  "let"sv,  "ll"sv,    "m"sv,     "may"sv,    "me"sv,      "might"sv, "my"sv,
    "need"sv,  "no"sv,   "not"sv,   "of"sv,    "on"sv,     "or"sv,      "our"sv,   "please"sv,
    "re"sv,    "s"sv,    "shall"sv, "she"sv,   "should"sv, "shouldn"sv, "so"sv,    "some"sv,
    "such"sv,  "t"sv,    "than"sv,  "thank"sv, "thanks"sv, "that"sv,    "the"sv,   "their"sv,
    "them"sv,  "then"sv, "there"sv, "these"sv, "they"sv,   "this"sv,    "those"sv, "to"sv,
    "too"sv,   "us"sv,   "ve"sv,    "very"sv,  "want"sv,   "was"sv,     "wasn"sv,  "we"sv,
    "were"sv,  "what"sv, "which"sv, "who"sv,   "will"sv,   "with"sv,    "would"sv, "wouldn"sv,
    "you"sv,   "your"sv,
};
static_assert(std::is_sorted(kStopWords.begin(), kStopWords.end()));

}  // namespace

std::size_t stem_english(std::span<char> word) {
  if (word.size() < 3) return word.size();
  if (!std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; })) {
    return word.size();
  }
  for (const auto& [exception, stem] : kExceptions) {
    if (exception == std::string_view(word.data(), word.size())) {
      std::memcpy(word.data(), stem.data(), stem.size());
      return stem.size();
    }
  }
  return Stemmer(word).run();
}

bool is_stop_word(std::string_view word) {
  constexpr std::size_t kLongest = 7;
  return word.size() <= kLongest && std::binary_search(kStopWords.begin(), kStopWords.end(), word);
}

}  // namespace toolroll
