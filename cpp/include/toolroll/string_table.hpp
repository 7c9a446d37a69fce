/// Numbers for byte strings: the terms of an index, the pieces of a vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace toolroll {

class ArchiveReader;
class ArchiveWriter;

/// Maps distinct byte strings to 0, 1, 2, ... in the order in which they were added.
///
/// A hash table with open addressing over one arena. A lookup computes a hash, usually reads one
/// cache line of slots, compares once, and allocates nothing. Many threads may read; add() needs
/// exclusive access.
class StringTable {
 public:
  static constexpr std::uint32_t kMissing = 0xFFFFFFFF;

  /// A hash that grows byte by byte, so that all prefixes of a word cost one pass. It begins with
  /// a random number of this process. Otherwise whoever writes the strings could choose ones that
  /// meet in a part of the table, where each look-up reads all of them. No number depends on it.
  /// Source: Fowler, Noll & Vo, FNV-1a (RFC 9923).
  class Hash {
   public:
    void add(char byte) { state_ = (state_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3U; }
    /// The state, mixed so that its low bits, which select a slot, depend on the high ones.
    std::uint64_t value() const { return (state_ ^ (state_ >> 32)) * 0x9E3779B97F4A7C15U; }

   private:
    static std::uint64_t random();
    inline static const std::uint64_t kBegin = random();
    std::uint64_t state_ = kBegin;
  };
  static Hash hash(std::string_view text) {
    Hash hash;
    for (const char byte : text) hash.add(byte);
    return hash;
  }

  /// The number of the string. A new string gets the next number.
  /// Throws std::length_error beyond 2^31 strings.
  std::uint32_t add(std::string_view text);
  /// Makes room for so many strings, so that adding them does not move the others.
  void reserve(std::size_t strings);
  /// The number of the string, or kMissing.
  std::uint32_t find(std::string_view text) const { return find(text, hash(text)); }
  /// The same with the hash of the text.
  std::uint32_t find(std::string_view text, Hash hash) const;

  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t number) const {
    const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(bytes_).substr(begin, ends_[number] - begin);
  }
  void write(ArchiveWriter& archive) const;
  /// Throws ArchiveError unless the strings are distinct and their ends in order. O(bytes).
  static StringTable read(ArchiveReader& archive);
  std::size_t memory_bytes() const {
    return bytes_.capacity() + ends_.capacity() * sizeof ends_[0] +
           slots_.capacity() * sizeof slots_[0];
  }

 private:
  struct Slot {
    std::uint32_t tag;     // upper half of the hash: spares most compares of unequal strings
    std::uint32_t number;  // kMissing: free
  };
  void resize(std::size_t slots);

  std::string bytes_;
  std::vector<std::uint64_t> ends_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace toolroll
