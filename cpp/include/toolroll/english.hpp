/// English words: their stems, and those that carry no subject.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace toolroll {

/// Cuts a word down to its stem in place and returns the new length, at most the old one: "indices of
/// searching" -> "indic", "search". The word: ASCII lower-case letters; anything else is returned whole.
///
/// Source: M. Porter, the English (Porter2) stemmer, as of Snowball 3.1; without its rules for
/// apostrophes, which are no letters here. O(size).
std::size_t stem_english(std::span<char> word);

/// Whether an ASCII lower-case word is left out of every index: articles, pronouns, auxiliaries, and
/// what people say around a request ("please", "could", "want").
bool is_stop_word(std::string_view word);

}  // namespace toolroll
