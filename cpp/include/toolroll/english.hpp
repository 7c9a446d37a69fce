/// English words: stems and stop words.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace toolroll {

/// Cuts a word down to its stem in place and returns the new length, at most the old one: "indices"
/// -> "indic", "searching" -> "search". A word that is not all ASCII lower-case letters keeps its
/// length.
///
/// Source: M. Porter, the English (Porter2) stemmer of Snowball 3.1, without its rules for
/// apostrophes, which are no letters here. O(size).
std::size_t stem_english(std::span<char> word);

/// Whether every index leaves out this ASCII lower-case word: articles, pronouns, auxiliaries, and
/// the words that people put around a request ("please", "could", "want").
bool is_stop_word(std::string_view word);

}  // namespace toolroll
