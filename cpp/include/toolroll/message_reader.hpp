/// The texts of a turn: the message, its clauses, and the turns before it, each with its vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toolroll/multilingual_table.hpp"
#include "toolroll/spelling.hpp"

namespace toolroll {

/// A text to find tools for, with everything that a search reads.
struct Passage {
  std::string text;
  std::vector<float> vector;  // of unit length, zeros if the text is unknown, or empty
  double trust = 1;           // in [0, 1]: weight of the vector; lower for a language that the
                              // embedder does not know
  double weight = 1;          // > 0: of this text beside the message
};

/// One turn, as retrieval reads it.
struct Reading {
  std::string text;              // the message
  Passage query;                 // the same with its spelling corrected
  std::vector<Passage> clauses;  // pieces that may each ask for something; never just one
  std::vector<Passage> earlier;  // the user's last turns, then the assistant's
  std::int64_t embed_ns = 0;     // the time to embed
};

/// A turn before the message.
struct EarlierTurn {
  bool is_users;  // else the assistant's
  std::string_view text;
};

/// The clauses of a message: pieces of at least kLeastWords words, the first kMostClauses of them.
/// None where there is a single one, or where the message has more than kLongestClaused characters:
/// the sentences of a document are no requests.
///
/// A message falls apart at line breaks; behind the end of a sentence; at a comma with a space, or
/// an ideographic one; and at "and", "then", "also", "plus", "as well as" and "but", with the comma
/// before them. In Chinese and Japanese, two characters count as a word. Any bytes are accepted.
/// O(n). The views refer to the message.
std::vector<std::string_view> clauses_of(std::string_view message);

/// All pieces of a message that are not blank, however short. None where it is a document.
std::vector<std::string_view> parts_of(std::string_view message);

/// Reads messages for one catalog.
///
/// One vector for a message that asks for several things blurs them, so each clause is searched for
/// alone, too. A short message ("yes, at 8 please") may mean nothing without the turns before it.
/// So the user's last two turns and the assistant's last one count, too. Their weights are 1, 0.5
/// and 1 beside a message of one term, and fall by a factor of e for every kTerms further distinct
/// terms of the query (terms.hpp); below 0.05 a turn is left out.
///
/// Immutable; safe to use from many threads.
class MessageReader {
 public:
  static constexpr std::size_t kMostClauses = 4;
  static constexpr std::size_t kLeastWords = 3;
  static constexpr std::size_t kLongestClaused = 1000;  // characters
  static constexpr double kTerms = 3;

  /// Whether the caller may be shown a correction to this word. The general vocabulary's words are
  /// shown to everybody, and not asked for.
  using MayShow = std::function<bool(std::string_view word)>;

  /// speller: corrects messages; nullptr to read them as they are. has_clauses: whether messages
  /// are read clause by clause, too.
  MessageReader(std::shared_ptr<const Speller> speller, bool has_clauses);

  /// Reads a message. No vectors are made.
  ///
  /// earlier: the turns before, oldest first. may_show: empty where the caller sees every word of
  /// the catalog. is_english: whether the embedder of the vectors has learnt English alone: then
  /// the trust in a text is its latin_share.
  ///
  /// Any bytes are accepted. O(n), and for each unknown word some thousand probes of a hash table.
  Reading read(std::string_view message, std::span<const EarlierTurn> earlier,
               const MayShow& may_show, bool is_english) const;

 private:
  std::shared_ptr<const Speller> speller_;
  bool has_clauses_;
};

/// Sets the vectors of all passages by the built-in table.
void embed(const MultilingualTable& table, Reading& reading);

}  // namespace toolroll
