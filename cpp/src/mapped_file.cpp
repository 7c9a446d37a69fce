#include "toolroll/mapped_file.hpp"

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#if defined(_WIN32)
#include <windows.h>

#include <filesystem>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace toolroll {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw std::runtime_error("cannot read " + path + ": " + reason);
}

[[noreturn]] void refuse(const std::string& path, int code) {
  refuse(path, std::system_category().message(code));
}

}  // namespace

#if defined(_WIN32)

MappedFile::Bytes MappedFile::open(const std::string& path) {
  struct Handle {
    HANDLE value;
    ~Handle() {
      if (value != INVALID_HANDLE_VALUE && value != nullptr) CloseHandle(value);
    }
  };
  const auto* const utf8 = reinterpret_cast<const char8_t*>(path.c_str());
  // Others may rename the file, or put another one in its place, while it is mapped.
  const Handle file{CreateFileW(std::filesystem::path(utf8).c_str(), GENERIC_READ,
                                FILE_SHARE_READ | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING,
                                FILE_ATTRIBUTE_NORMAL, nullptr)};
  if (file.value == INVALID_HANDLE_VALUE) refuse(path, static_cast<int>(GetLastError()));
  LARGE_INTEGER size;
  if (!GetFileSizeEx(file.value, &size)) refuse(path, static_cast<int>(GetLastError()));
  if (size.QuadPart == 0) return {};
  const Handle mapping{CreateFileMappingW(file.value, nullptr, PAGE_READONLY, 0, 0, nullptr)};
  if (mapping.value == nullptr) refuse(path, static_cast<int>(GetLastError()));
  const void* const memory = MapViewOfFile(mapping.value, FILE_MAP_READ, 0, 0, 0);
  if (memory == nullptr) refuse(path, static_cast<int>(GetLastError()));
  std::shared_ptr<const void> owner(memory, [](const void* at) { UnmapViewOfFile(at); });
  return {{static_cast<const std::byte*>(memory), static_cast<std::size_t>(size.QuadPart)},
          std::move(owner)};
}

#else

MappedFile::Bytes MappedFile::open(const std::string& path) {
  struct Descriptor {
    int value;
    ~Descriptor() {
      if (value >= 0) ::close(value);
    }
  };
  // O_NONBLOCK: a pipe is refused below and must not be waited for.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) refuse(path, errno);
  struct stat status;
  if (::fstat(file.value, &status) != 0) refuse(path, errno);
  if (!S_ISREG(status.st_mode)) refuse(path, "it is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
  if (memory == MAP_FAILED) refuse(path, errno);
  std::shared_ptr<const void> owner(
      memory, [size](const void* at) { ::munmap(const_cast<void*>(at), size); });
  return {{static_cast<const std::byte*>(memory), size}, std::move(owner)};
}

#endif

}  // namespace toolroll
