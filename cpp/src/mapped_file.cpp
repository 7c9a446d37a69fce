#include "toolroll/mapped_file.hpp"

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#if defined(_WIN32)
#include <filesystem>
#include <fstream>
#include <vector>
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

// Windows does not let a file be replaced while it is mapped. So it is read.
MappedFile::Bytes MappedFile::open(const std::string& path) {
  const auto* const utf8 = reinterpret_cast<const char8_t*>(path.c_str());
  const std::filesystem::path place(utf8);
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(place, unreadable)) refuse(path, "it is no regular file");
  std::ifstream file(place, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (!file || size < 0) refuse(path, errno);
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes->data()), size);
  if (!file) refuse(path, errno);
  return {*bytes, bytes};
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
