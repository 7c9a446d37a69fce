/// Many archives in one mapped file, each found by its name.
///
/// Layout, little-endian: a header of 64 bytes (magic "TOOLSECT", envelope version u32, kind (8
/// bytes, zero padded), kind version u32, number of sections u32, place of the table u64, size of
/// the file u64, XXH64 of the header before it and of the table, zeros); the sections, each an
/// archive (archive.hpp) at a multiple of kSectionAlignment, with zeros in between; the table: name
/// (24 bytes, zero padded), place u64 and size u64 of each section.
///
/// Opening reads the header, the table and the zeros. A section's checksum is verified when the
/// section is read. So the unused sections of a file cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toolroll/archive.hpp"

namespace toolroll {

inline constexpr std::size_t kSectionAlignment = 4096;  ///< a page: sections share none

/// Writes a file of sections, one after the other. Only finish() makes the file valid.
class SectionWriter {
 public:
  /// kind: at most 8 characters. Throws std::runtime_error if the file cannot be written.
  SectionWriter(const std::string& path, std::string_view kind, std::uint32_t version);

  /// Throws std::invalid_argument if the name is not of 1 to 24 characters or is taken;
  /// std::runtime_error if the file system refuses. Large arrays are not copied.
  void add(std::string_view name, ArchiveWriter& archive);
  /// Writes table and header. Throws as add() does.
  void finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
  };
  void write(std::span<const std::byte> bytes);
  void pad(std::size_t alignment);

  std::string path_;
  std::string kind_;
  std::uint32_t version_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t at_ = 0;
  std::vector<std::byte> table_;
  std::vector<std::string> names_;
};

/// A file of sections. Immutable; any number of threads may read it.
class SectionFile {
 public:
  /// Maps the file. Throws ArchiveError unless it is a sound file of this kind and version;
  /// std::runtime_error if it cannot be read.
  static SectionFile open(const std::string& path, std::string_view kind, std::uint32_t version);
  /// The same for bytes in memory that stay valid while `owner` lives.
  SectionFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
              std::string_view kind, std::uint32_t version);

  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  /// The section, its checksum verified. O(its size). Throws ArchiveError if there is no such
  /// section, or it is not a sound archive of this kind and version.
  ArchiveReader section(std::string_view name, std::string_view kind, std::uint32_t version) const;

 private:
  struct Section {
    std::string name;
    std::span<const std::byte> bytes;
  };
  const Section* find(std::string_view name) const;

  std::vector<Section> sections_;
  std::shared_ptr<const void> owner_;
};

}  // namespace toolroll
