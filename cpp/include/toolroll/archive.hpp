/// The file format of every index: a checked envelope around columns of plain numbers.
///
/// Layout, little-endian: magic "TOOLROLL", envelope version u32, kind (8 bytes, zero padded), kind
/// version u32, payload size u64, payload, XXH64 of everything before it. A reader verifies the
/// whole checksum before it reads a byte of payload, and checks the bounds of every later read. So
/// a truncated, corrupt or foreign file causes an ArchiveError, never a crash. A checksum is no
/// signature: each index still validates the numbers that it reads (row numbers in range, offsets
/// ascending).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace toolroll {

/// The file or buffer is not a sound archive of the expected kind and version.
class ArchiveError : public std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// 64-bit checksum of bytes. Source: Y. Collet, XXH64 specification 0.1.1.
std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

/// Collects numbers and columns, then writes them in one piece. Adding to it after save() or
/// bytes() throws std::logic_error.
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

  /// Writes a temporary file beside the path and renames it, so that readers see the old file or
  /// the whole new one.
  /// Throws std::runtime_error if the file system refuses.
  void save(const std::string& path);
  /// The finished archive.
  std::vector<std::byte> bytes();

 private:
  void append(const void* data, std::size_t size);
  void seal();
  std::vector<std::byte> buffer_;
  bool sealed_ = false;
};

/// Reads back what ArchiveWriter wrote, in the same order.
class ArchiveReader {
 public:
  /// Throws ArchiveError unless the bytes are a sound archive of this kind and version.
  ArchiveReader(std::vector<std::byte> bytes, std::string_view kind, std::uint32_t version);
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
  /// Throws ArchiveError if something is left unread.
  void finish() const;

 private:
  std::size_t claim(std::uint64_t count, std::size_t size) const;  // count, if that much is left
  void take(void* out, std::size_t size);
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

}  // namespace toolroll
