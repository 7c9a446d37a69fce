#include "toolroll/section_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "toolroll/mapped_file.hpp"

#if defined(_WIN32)
#include <filesystem>
#endif

namespace toolroll {
namespace {

constexpr std::size_t kNameSize = 24;

struct Header {
  char magic[8];
  std::uint32_t envelope;
  char kind[8];
  std::uint32_t version;
  std::uint32_t sections;
  std::uint32_t unused;
  std::uint64_t table;
  std::uint64_t size;
  std::uint64_t checksum;
  std::uint64_t zero;
};
struct Entry {
  char name[kNameSize];
  std::uint64_t at;
  std::uint64_t size;
};
constexpr char kMagic[8] = {'T', 'O', 'O', 'L', 'S', 'E', 'C', 'T'};
constexpr std::uint32_t kEnvelope = 1;
static_assert(sizeof(Header) == 64 && sizeof(Entry) == 40, "no padding between the fields");
static_assert(offsetof(Header, checksum) == 48);

template <std::size_t kSize>
void copy_padded(std::string_view text, char (&out)[kSize]) {
  std::memset(out, 0, kSize);
  std::memcpy(out, text.data(), std::min(text.size(), kSize));
}

std::string text_of(const char* padded, std::size_t size) {
  return {padded, std::find(padded, padded + size, '\0')};
}

std::uint64_t checksum(const Header& header, std::span<const std::byte> table) {
  Xxh64 hash;
  hash.add(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum)));
  hash.add(table);
  return hash.value();
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

std::size_t aligned(std::size_t at) {
  return (at + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

void require(bool sound, const char* what) {
  if (!sound) throw ArchiveError(std::string("damaged file: ") + what);
}

std::FILE* open_for_writing(const std::string& path) {
#if defined(_WIN32)
  const auto* const utf8 = reinterpret_cast<const char8_t*>(path.c_str());
  return _wfopen(std::filesystem::path(utf8).c_str(), L"wb");
#else
  return std::fopen(path.c_str(), "wbe");
#endif
}

[[noreturn]] void refuse(const std::string& path) {
  throw std::runtime_error("cannot write " + path + ": " + std::generic_category().message(errno));
}

}  // namespace

SectionWriter::SectionWriter(const std::string& path, std::string_view kind, std::uint32_t version)
    : path_(path), kind_(kind), version_(version), file_(open_for_writing(path)) {
  if (kind.empty() || kind.size() > sizeof Header::kind) {
    throw std::invalid_argument("section file: its kind must have 1 to 8 characters");
  }
  if (!file_) refuse(path_);
  constexpr std::byte kZeros[sizeof(Header)] = {};
  write(kZeros);
}

void SectionWriter::write(std::span<const std::byte> bytes) {
  if (!file_) throw std::logic_error("section file: is finished");
  if (bytes.empty())
    return;  // a span without bytes may be a null pointer, which fwrite may not get
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) refuse(path_);
  at_ += bytes.size();
}

void SectionWriter::pad(std::size_t alignment) {
  static constexpr std::byte kZeros[kSectionAlignment] = {};
  write(std::span(kZeros).first((alignment - at_ % alignment) % alignment));
}

void SectionWriter::add(std::string_view name, ArchiveWriter& archive) {
  if (name.empty() || name.size() > kNameSize || std::ranges::count(names_, name) != 0) {
    throw std::invalid_argument("section '" + std::string(name) +
                                "': its name must be new, of 1 to 24 characters");
  }
  pad(kSectionAlignment);
  Entry entry{};
  copy_padded(name, entry.name);
  entry.at = at_;
  archive.each_piece([this](std::span<const std::byte> piece) { write(piece); });
  entry.size = at_ - entry.at;
  const auto bytes = std::as_bytes(std::span(&entry, 1));
  table_.insert(table_.end(), bytes.begin(), bytes.end());
  names_.emplace_back(name);
}

void SectionWriter::finish() {
  pad(kSectionAlignment);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.envelope = kEnvelope;
  copy_padded(kind_, header.kind);
  header.version = version_;
  header.sections = static_cast<std::uint32_t>(names_.size());
  header.table = at_;
  write(table_);
  header.size = at_;
  header.checksum = checksum(header, table_);
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) refuse(path_);
  write(std::as_bytes(std::span(&header, 1)));
  if (std::fclose(file_.release()) != 0) refuse(path_);
}

SectionFile SectionFile::open(const std::string& path, std::string_view kind,
                              std::uint32_t version) {
  MappedFile::Bytes mapped = MappedFile::open(path);
  return SectionFile(mapped.view, std::move(mapped.owner), kind, version);
}

SectionFile::SectionFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                         std::string_view kind, std::uint32_t version)
    : owner_(std::move(owner)) {
  Header header{};
  char expected[sizeof header.kind];
  copy_padded(kind, expected);
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (bytes.size() < sizeof header || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 ||
      std::memcmp(header.kind, expected, sizeof expected) != 0) {
    throw ArchiveError("is no " + std::string(kind) + " file: it does not begin like one");
  }
  // Before the checksum: another version may have another header.
  if (header.envelope != kEnvelope || header.version != version) {
    throw ArchiveError("is of version " + std::to_string(header.version) +
                       ", this build reads version " + std::to_string(version) +
                       ": build it again");
  }
  require(header.size == bytes.size(), "truncated or extended, its size is not the one it states");
  require(header.table % kSectionAlignment == 0 && header.table <= bytes.size() &&
              (bytes.size() - header.table) / sizeof(Entry) == header.sections &&
              (bytes.size() - header.table) % sizeof(Entry) == 0,
          "its table is out of its place");
  const auto table = bytes.subspan(header.table);
  require(header.checksum == checksum(header, table) && header.zero == 0,
          "the checksum of its header does not match");
  std::size_t end = sizeof header;  // of what was read so far
  for (std::size_t i = 0; i < header.sections; ++i) {
    Entry entry;
    std::memcpy(&entry, table.data() + i * sizeof entry, sizeof entry);
    require(entry.at == aligned(end) && entry.at <= header.table &&
                entry.size <= header.table - entry.at,
            "a section is out of its place");
    require(all_zero(bytes.subspan(end, entry.at - end)), "there are bytes between its sections");
    std::string name = text_of(entry.name, kNameSize);
    require(!contains(name), "a section is there twice");
    sections_.push_back({std::move(name), bytes.subspan(entry.at, entry.size)});
    end = entry.at + entry.size;
  }
  require(aligned(end) == header.table && all_zero(bytes.subspan(end, header.table - end)),
          "there are bytes between its sections");
}

const SectionFile::Section* SectionFile::find(std::string_view name) const {
  const auto found = std::ranges::find(sections_, name, &Section::name);
  return found == sections_.end() ? nullptr : &*found;
}

std::vector<std::string> SectionFile::names() const {
  std::vector<std::string> names;
  names.reserve(sections_.size());
  for (const Section& section : sections_) names.push_back(section.name);
  return names;
}

bool SectionFile::contains(std::string_view name) const { return find(name) != nullptr; }

ArchiveReader SectionFile::section(std::string_view name, std::string_view kind,
                                   std::uint32_t version) const {
  const Section* const section = find(name);
  if (section == nullptr) {
    throw ArchiveError("damaged file: it has no section '" + std::string(name) + "'");
  }
  return {section->bytes, owner_, kind, version};
}

}  // namespace toolroll
