/// A file's bytes as memory, shared with every process that maps the same file.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace toolroll {

/// A file mapped for reading. Pages are read when they are first touched, and the system may drop
/// them again; a forked process and any other process that maps the file use the same pages.
///
/// The mapping keeps the file that was opened, even if a rename puts another file in its place.
/// Writing into the mapped file or truncating it is not allowed: checked content could change, and
/// reading behind the new end kills the process (SIGBUS).
class MappedFile {
 public:
  /// The bytes of a regular file, valid while a copy of the pointer lives.
  struct Bytes {
    std::span<const std::byte> view;
    std::shared_ptr<const void> owner;
  };
  /// Throws std::runtime_error with the system's reason if the path names no regular file, or it
  /// cannot be read. O(1) in the size of the file.
  static Bytes open(const std::string& path);
};

}  // namespace toolroll
