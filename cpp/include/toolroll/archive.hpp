/// The file format of every index: a checked envelope around columns of plain numbers.
///
/// Layout, little-endian: magic "TOOLROLL", envelope version u32, kind (8 bytes, zero padded), kind
/// version u32, payload size u64, payload, XXH64 of everything before it. A reader verifies the
/// whole checksum before it reads a byte of payload, and checks the bounds of every later read. So
/// a truncated, corrupt or foreign file causes an ArchiveError, never a crash. A checksum is no
/// signature: each index still validates the numbers that it reads (row numbers in range, offsets
/// ascending).
///
/// A payload is a sequence of values, columns and arrays. A column is its length u64 and its
/// numbers; reading copies them. An array is its length u64, zeros up to a multiple of
/// kArrayAlignment bytes from the start of the archive, and its numbers; reading gives a view of
/// the archive's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "toolroll/shared_array.hpp"

namespace toolroll {

inline constexpr std::size_t kArrayAlignment = 64;  ///< a cache line

/// The file or buffer is not a sound archive of the expected kind and version.
class ArchiveError : public std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// 64-bit checksum of bytes. Source: Y. Collet, XXH64 specification 0.1.1.
std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

/// The same checksum of bytes that come piece by piece.
class Xxh64 {
 public:
  explicit Xxh64(std::uint64_t seed = 0);
  void add(std::span<const std::byte> bytes);
  /// The checksum of everything so far.
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kStripe = 32;
  std::uint64_t lanes_[4];
  std::uint64_t seed_;
  std::uint64_t size_ = 0;
  std::byte rest_[kStripe] = {};  // the last size_ % kStripe bytes
};

/// Collects numbers, columns and arrays, then writes them. Adding to it after save(), bytes() or
/// each_piece() throws std::logic_error.
class ArchiveWriter {
 public:
  /// kind: at most 8 characters that name the index.
  ArchiveWriter(std::string_view kind, std::uint32_t version);

  template <typename T>
  void value(T number) {
    static_assert(std::is_arithmetic_v<T>);
    append(&number, sizeof number);
  }
  template <typename T>
  void column(std::span<const T> numbers) {
    static_assert(std::is_trivially_copyable_v<T>);
    value<std::uint64_t>(numbers.size());
    append(numbers.data(), numbers.size_bytes());
  }
  template <typename T>
  void column(const std::vector<T>& numbers) {
    column(std::span<const T>(numbers));
  }
  void text(std::string_view bytes);
  /// An array that stays where it is until the archive is written: nothing is copied.
  template <typename T>
  void array(std::span<const T> numbers) {
    static_assert(std::is_trivially_copyable_v<T>);
    value<std::uint64_t>(numbers.size());
    align();
    borrow(std::as_bytes(numbers));
  }
  template <typename T>
  void array(const SharedArray<T>& numbers) {
    array(numbers.span());
  }

  /// Calls write(bytes) for each piece of the finished archive, in order. O(1) memory.
  void each_piece(const std::function<void(std::span<const std::byte>)>& write);
  /// The size of the finished archive.
  std::size_t size();

  /// Writes a temporary file beside the path and renames it, so that readers see the old file or
  /// the whole new one.
  /// Throws std::runtime_error if the file system refuses.
  void save(const std::string& path);
  /// The finished archive.
  std::vector<std::byte> bytes();

 private:
  /// Borrowed bytes, and the number of bytes of buffer_ that come before them.
  struct Borrowed {
    std::size_t behind;
    std::span<const std::byte> bytes;
  };
  void append(const void* data, std::size_t size);
  void align();
  void borrow(std::span<const std::byte> bytes);
  void seal();
  std::vector<std::byte> buffer_;  // everything but the borrowed arrays
  std::vector<Borrowed> borrowed_;
  std::size_t borrowed_size_ = 0;
  bool sealed_ = false;
};

/// Reads back what ArchiveWriter wrote, in the same order.
class ArchiveReader {
 public:
  /// Throws ArchiveError unless the bytes are a sound archive of this kind and version.
  ArchiveReader(std::vector<std::byte> bytes, std::string_view kind, std::uint32_t version);
  /// The same for memory that stays valid while `owner` lives, such as a part of a mapped file.
  ArchiveReader(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                std::string_view kind, std::uint32_t version);
  /// The same for a file. Throws ArchiveError also if the file cannot be read.
  static ArchiveReader load(const std::string& path, std::string_view kind, std::uint32_t version);

  template <typename T>
  T value() {
    static_assert(std::is_arithmetic_v<T>);
    T number;
    take(&number, sizeof number);
    return number;
  }
  template <typename T>
  std::vector<T> column() {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t n = claim(value<std::uint64_t>(), sizeof(T));
    std::vector<T> numbers(n);
    take(numbers.data(), n * sizeof(T));
    return numbers;
  }
  std::string text();
  /// A view of the archive's memory, which the result keeps. A copy if that memory is not aligned
  /// for T.
  template <typename T>
  SharedArray<T> array() {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto count = value<std::uint64_t>();
    align();
    const std::size_t n = claim(count, sizeof(T));
    const std::byte* const from = view_.data() + at_;
    if (reinterpret_cast<std::uintptr_t>(from) % alignof(T) != 0) {
      std::vector<T> numbers(n);
      take(numbers.data(), n * sizeof(T));
      return numbers;
    }
    at_ += n * sizeof(T);
    return {{reinterpret_cast<const T*>(from), n}, owner_};
  }
  /// Throws ArchiveError if there are unread bytes.
  void finish() const;

 private:
  void check(std::string_view kind, std::uint32_t version);
  std::size_t claim(std::uint64_t count, std::size_t size) const;  // count, if that much is left
  void take(void* out, std::size_t size);
  void align();
  std::span<const std::byte> view_;
  std::shared_ptr<const void> owner_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

}  // namespace toolroll
