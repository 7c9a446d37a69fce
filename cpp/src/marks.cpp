#include "toolroll/marks.hpp"

#include <algorithm>

namespace toolroll {

const std::array<std::string_view, kMarkKinds> kMarkNames = {
    "ending",        "mail address", "issue number", "channel",     "pull request", "merge request",
    "ticker",        "path",         "bucket",       "cells",       "time",         "date",
    "vulnerability", "ticket key",   "phone number", "temperature", "SQL",          "coordinates",
    "DOI",           "arXiv number", "commit",
};

namespace {

constexpr std::size_t kLongest = 64;  // bytes that are read on either side of an anchor

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_lower(c) || is_upper(c); }
bool is_alnum(char c) { return is_letter(c) || is_digit(c); }
bool is_word(char c) { return is_alnum(c) || c == '_'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

/// What a character may be the anchor of: nothing, punctuation, or a commit's first digit.
enum Anchor : std::uint8_t { kNothing, kPunctuation, kHex };

constexpr std::array<std::uint8_t, 256> make_anchors() {
  std::array<std::uint8_t, 256> anchors{};
  for (char c = '0'; c <= '9'; ++c) anchors[static_cast<unsigned char>(c)] = kHex;
  for (char c = 'a'; c <= 'f'; ++c) anchors[static_cast<unsigned char>(c)] = kHex;
  for (const char c : std::string_view(".@#!R$/\\:mM-+T\xB0")) {
    anchors[static_cast<unsigned char>(c)] = kPunctuation;
  }
  return anchors;
}
constexpr std::array<std::uint8_t, 256> kAnchors = make_anchors();

/// One search. Offsets may lie outside of the text: at() is 0 there, which is in no class.
class Finder {
 public:
  explicit Finder(std::string_view text) : text_(text) {}

  std::vector<Mark> run() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const std::uint8_t anchor = kAnchors[static_cast<unsigned char>(text_[i])];
      if (anchor == kNothing) continue;
      if (anchor == kHex) {
        if (is_wanted(MarkKind::kCommit) && is_commit(i)) add(MarkKind::kCommit, i);
      } else {
        read(i);
      }
    }
    return std::move(found_);
  }

 private:
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  /// The byte so far before i: back(i, 1) is the one before it.
  char back(std::size_t i, std::size_t steps) const { return i >= steps ? text_[i - steps] : '\0'; }
  bool is_wanted(MarkKind kind) const { return (seen_ >> static_cast<unsigned>(kind) & 1U) == 0; }

  void add(MarkKind kind, std::size_t start, std::size_t end = 0) {
    found_.push_back({kind, start, end == 0 ? start + 1 : end});
    if (kind != MarkKind::kEnding || ++endings_ == kMostEndings) {
      seen_ |= 1U << static_cast<unsigned>(kind);
    }
  }
  void add_if(MarkKind kind, bool holds, std::size_t i) {
    if (holds && is_wanted(kind)) add(kind, i);
  }

  /// The end of the digits from i on; at most `most` and one more are read.
  std::size_t past_digits(std::size_t i, std::size_t most) const {
    const std::size_t begin = i;
    while (i - begin <= most && is_digit(at(i))) ++i;
    return i;
  }
  /// Whether there are so many digits from i on, and no word character behind them.
  bool has_number(std::size_t i, std::size_t least, std::size_t most) const {
    const std::size_t end = past_digits(i, most);
    return end - i >= least && end - i <= most && !is_word(at(end));
  }
  /// Whether the text before i ends with the word, alone on its left.
  bool follows(std::size_t i, std::string_view word) const {
    return i >= word.size() && text_.substr(i - word.size(), word.size()) == word &&
           !is_word(back(i, word.size() + 1));
  }

  void read(std::size_t i) {
    const char before = back(i, 1);
    switch (text_[i]) {
      case '.':
        read_dot(i, before);
        break;
      case '@':
        add_if(MarkKind::kMailAddress, is_mail_address(i, before), i);
        break;
      case '#':
        if (is_word(before) || is_one_of(before, "&#/")) break;
        add_if(MarkKind::kIssueNumber, has_number(i + 1, 1, 6), i);
        add_if(MarkKind::kChannel, is_lower(at(i + 1)) && (is_word(at(i + 2)) || at(i + 2) == '-'),
               i);
        break;
      case '!':
        if (is_word(before) || before == '!') break;
        add_if(MarkKind::kMergeRequest, has_number(i + 1, 1, 6), i);
        break;
      case 'R':
        read_request(i, before);
        break;
      case '$':
        add_if(MarkKind::kTicker, is_ticker(i, before), i);
        break;
      case '/':
        read_slash(i, before);
        break;
      case '\\':
        add_if(MarkKind::kPath,
               before == ':' && is_letter(back(i, 2)) && !is_word(back(i, 3)) && is_word(at(i + 1)),
               i);
        break;
      case ':':
        read_colon(i, before);
        break;
      case 'm':
      case 'M': {
        const bool has_space = back(i, 2) == ' ';
        add_if(MarkKind::kTime,
               is_one_of(before, "apAP") && is_digit(back(i, has_space ? 3 : 2)) &&
                   !is_word(at(i + 1)),
               i);
        break;
      }
      case '-':
        read_hyphen(i);
        break;
      case '+':
        add_if(MarkKind::kPhoneNumber, !is_word(before) && is_phone_number(i), i);
        break;
      case 'T':
        add_if(MarkKind::kSql,
               follows(i, "SELEC") && is_space(at(i + 1)) &&
                   (is_word(at(i + 2)) || is_one_of(at(i + 2), "*\"`(")),
               i);
        break;
      default: {  // the second byte of a degree sign
        const char c = back(i, back(i, 2) == ' ' ? 3 : 2);
        add_if(MarkKind::kTemperature, before == '\xC2' && is_digit(c), i);
      }
    }
  }

  void read_dot(std::size_t i, char before) {
    if (is_digit(before)) {
      add_if(MarkKind::kCoordinates, is_coordinates(i), i);
      add_if(MarkKind::kDoi, is_doi(i), i);
      add_if(MarkKind::kArxivNumber, is_arxiv_number(i), i);
    }
    if (i == 0 || is_space(before) || before == '.' || !is_wanted(MarkKind::kEnding)) return;
    std::size_t end = i + 1;
    while (end - i <= 9 && is_alnum(at(end))) ++end;
    const std::size_t length = end - i - 1;
    if (length >= 2 && length <= 8 && !is_word(at(end))) add(MarkKind::kEnding, i, end);
  }

  bool is_coordinates(std::size_t i) const {
    std::size_t end = past_digits(i + 1, 10);
    if (end - i - 1 < 3 || end - i - 1 > 10) return false;
    if (at(end) == '\xC2' && at(end + 1) == '\xB0') end += 2;
    if (is_one_of(at(end), "NSns")) ++end;
    if (is_space(at(end))) ++end;
    if (!is_one_of(at(end), ",;")) return false;
    ++end;
    if (is_space(at(end))) ++end;
    if (is_one_of(at(end), "+-")) ++end;
    const std::size_t point = past_digits(end, 3);
    return point > end && point - end <= 3 && at(point) == '.' &&
           past_digits(point + 1, 3) - point > 3;
  }

  bool is_doi(std::size_t i) const {
    if (!follows(i, "10")) return false;
    const std::size_t end = past_digits(i + 1, 9);
    const std::size_t digits = end - i - 1;
    return digits >= 4 && digits <= 9 && at(end) == '/' && at(end + 1) != '\0' &&
           !is_space(at(end + 1));
  }

  bool is_arxiv_number(std::size_t i) const {
    if (!is_digit(back(i, 3)) || !is_digit(back(i, 4)) || is_word(back(i, 5))) return false;
    if (back(i, 2) != '0' && back(i, 2) != '1') return false;
    std::size_t end = past_digits(i + 1, 5);
    const std::size_t digits = end - i - 1;
    if (digits < 4 || digits > 5) return false;
    return at(end) == 'v' ? has_number(end + 1, 1, 2) : !is_word(at(end));
  }

  bool is_mail_address(std::size_t i, char before) const {
    if (!is_word(before) && before != '+' && before != '-') return false;
    std::size_t end = i + 1;
    while (end - i <= kLongest && (is_alnum(at(end)) || at(end) == '-')) ++end;
    return end > i + 1 && end - i <= kLongest && at(end) == '.' && is_letter(at(end + 1)) &&
           is_letter(at(end + 2));
  }

  void read_request(std::size_t i, char before) {
    if ((before != 'P' && before != 'M') || is_word(back(i, 2))) return;
    std::size_t number = i + 1;
    if (at(number) == ' ') ++number;
    if (at(number) == (before == 'P' ? '#' : '!')) ++number;
    add_if(before == 'P' ? MarkKind::kPullRequest : MarkKind::kMergeRequest,
           has_number(number, 1, 6), i);
  }

  bool is_ticker(std::size_t i, char before) const {
    if (is_word(before) || before == '$') return false;
    std::size_t end = i + 1;
    while (end - i <= 6 && is_upper(at(end))) ++end;
    return end > i + 1 && end - i <= 6 && !is_word(at(end));
  }

  void read_slash(std::size_t i, char before) {
    if (before == '~') {
      add_if(MarkKind::kPath, !is_word(back(i, 2)) && back(i, 2) != '~', i);
      return;
    }
    if (is_digit(before) && is_wanted(MarkKind::kDate)) {
      const std::size_t year = past_digits(i + 1, 2);
      const std::size_t digits = year - i - 1;
      if (digits >= 1 && digits <= 2 && at(year) == '/') {
        add_if(MarkKind::kDate, has_number(year + 1, 2, 4), i);
      }
    }
    if (is_word(before) || is_one_of(before, "/:.<*)") || !is_wanted(MarkKind::kPath)) return;
    std::size_t end = i + 1;
    while (end - i <= kLongest && (is_word(at(end)) || is_one_of(at(end), ".-"))) ++end;
    add_if(MarkKind::kPath, end > i + 1 && end - i <= kLongest && at(end) == '/', i);
  }

  void read_colon(std::size_t i, char before) {
    if (is_digit(before)) {
      add_if(MarkKind::kTime,
             at(i + 1) >= '0' && at(i + 1) <= '5' && is_digit(at(i + 2)) && !is_word(at(i + 3)), i);
    }
    add_if(MarkKind::kBucket,
           (follows(i, "s3") || follows(i, "gs")) && at(i + 1) == '/' && at(i + 2) == '/', i);
    add_if(MarkKind::kCells, is_cells(i), i);
  }

  bool is_cells(std::size_t i) const {
    std::size_t digits = 0;
    while (digits < 5 && is_digit(back(i, digits + 1))) ++digits;
    std::size_t letters = 0;
    while (letters < 3 && is_upper(back(i, digits + letters + 1))) ++letters;
    if (digits < 1 || digits > 4 || letters < 1 || letters > 2) return false;
    if (is_word(back(i, digits + letters + 1))) return false;
    const std::size_t row = is_upper(at(i + 2)) ? i + 3 : i + 2;
    return is_upper(at(i + 1)) && is_digit(at(row));
  }

  void read_hyphen(std::size_t i) {
    std::size_t length = 0;  // of the capitals and digits before it
    while (length < 11 && (is_upper(back(i, length + 1)) || is_digit(back(i, length + 1)))) {
      ++length;
    }
    if (length < 2 || length > 10) return;
    const char before = back(i, length + 1);
    const std::string_view head = text_.substr(i - length, length);
    if (is_word(before)) return;
    if (is_upper(head[0])) {
      if (head == "CVE") {
        add_if(MarkKind::kVulnerability,
               past_digits(i + 1, 4) == i + 5 && at(i + 5) == '-' && has_number(i + 6, 4, 7), i);
      } else {
        add_if(MarkKind::kTicketKey, before != '-' && is_ticket_number(i + 1) && !is_standard(head),
               i);
      }
    } else if (length == 4 && std::all_of(head.begin(), head.end(), is_digit)) {
      add_if(MarkKind::kDate,
             past_digits(i + 1, 2) == i + 3 && at(i + 3) == '-' && has_number(i + 4, 2, 2), i);
    }
  }

  bool is_ticket_number(std::size_t i) const {
    const std::size_t end = past_digits(i, 6);
    return has_number(i, 1, 6) && at(end) != '-' && !(at(end) == '.' && is_digit(at(end + 1)));
  }

  static bool is_standard(std::string_view head) {
    static constexpr std::array<std::string_view, 8> kStandards = {"UTF", "UTC", "GMT", "ISO",
                                                                   "SHA", "GPT", "RFC", "COVID"};
    return std::find(kStandards.begin(), kStandards.end(), head) != kStandards.end();
  }

  bool is_phone_number(std::size_t i) const {
    if (!is_digit(at(i + 1))) return false;
    std::size_t digits = 0;
    for (std::size_t end = i + 1; end - i <= 24; ++end) {
      if (is_digit(at(end))) {
        ++digits;
      } else if (at(end) == '\0' || !is_one_of(at(end), " ().-")) {
        break;
      }
    }
    return digits >= 8 && digits <= 15;
  }

  bool is_commit(std::size_t i) const {
    const char before = back(i, 1);
    if (is_word(before) || before == '.' || before == '-') return false;
    std::size_t end = i;
    bool has_digit = false;
    bool has_letter = false;
    while (end - i <= 40 && is_hex(at(end))) {
      (is_digit(at(end)) ? has_digit : has_letter) = true;
      ++end;
    }
    return end - i >= 7 && end - i <= 40 && has_digit && has_letter && !is_word(at(end)) &&
           at(end) != '-';
  }

  std::string_view text_;
  std::vector<Mark> found_;
  std::uint32_t seen_ = 0;  // kinds that are not looked for any more
  std::size_t endings_ = 0;
};

}  // namespace

std::vector<Mark> find_marks(std::string_view text) { return Finder(text).run(); }

}  // namespace toolroll
