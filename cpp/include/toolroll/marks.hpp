/// Marks of a text: things that its punctuation shows without a word, such as "costs.xlsx" or
/// "PAY-310".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace toolroll {

/// Letters, digits and words are ASCII; any other character separates words. "Alone" means
/// that no word character is next to it.
enum class MarkKind : std::uint8_t {
  kEnding,        // of a file: a dot behind neither a space nor a dot, and 2 to 8 letters or digits
  kMailAddress,   // x@example.com
  kIssueNumber,   // #12
  kChannel,       // #general
  kPullRequest,   // PR 56, PR #56
  kMergeRequest,  // !34, MR 34, MR !34
  kTicker,        // $AAPL
  kPath,          // ~/x, /etc/hosts, C:\temp; not a path of one name, such as /help
  kBucket,        // s3://, gs://
  kCells,         // A1:C10
  kTime,          // 14:30, 3pm, 3 PM
  kDate,          // 2026-05-01, 1/5/2026
  kVulnerability,  // CVE-2026-1234
  kTicketKey,      // PAY-310; not UTF-8 and other standards
  kPhoneNumber,    // + and 8 to 15 digits
  kTemperature,    // 21°, 21 °C
  kSql,            // SELECT x
  kCoordinates,    // 48.8584, 2.2945
  kDoi,            // 10.1000/xyz
  kArxivNumber,    // 2310.06770
  kCommit,         // 7 to 40 hexadecimal digits in lower case, alone, with a digit and a letter
};
inline constexpr std::size_t kMarkKinds = 21;

/// The kinds in words, by number: "ticket key".
extern const std::array<std::string_view, kMarkKinds> kMarkNames;

/// Half-open byte range of the text.
struct Mark {
  MarkKind kind;
  std::size_t start;
  std::size_t end;
};

inline constexpr std::size_t kMostEndings = 16;

/// The first mark of each kind, and the first kMostEndings endings of files, in their order. The
/// range of an ending is the dot and the ending; of other marks it is the character that shows
/// them. Any bytes are accepted.
///
/// One pass. Each character is looked up in a table, and at few of them the bytes around it are
/// compared, at most 64 on either side. So O(n) for every text.
std::vector<Mark> find_marks(std::string_view text);

}  // namespace toolroll
