#include "toolroll/archive.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace toolroll {
namespace {

static_assert(std::endian::native == std::endian::little, "archives are little-endian");

constexpr char kMagic[8] = {'T', 'O', 'O', 'L', 'R', 'O', 'L', 'L'};
constexpr std::uint32_t kEnvelope = 1;
constexpr std::size_t kKindSize = 8;
constexpr std::size_t kHeader = 8 + 4 + kKindSize + 4 + 8;  // magic, envelope, kind, version, size
constexpr std::size_t kSizeAt = kHeader - 8;

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87U;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9U;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63U;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5U;

template <typename T>
T load_le(const std::byte* at) {
  T number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

/// The bytes from a place to the next multiple of kArrayAlignment.
std::size_t padding(std::size_t at) {
  return (kArrayAlignment - at % kArrayAlignment) % kArrayAlignment;
}

}  // namespace

std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed) {
  Xxh64 hash(seed);
  hash.add(bytes);
  return hash.value();
}

Xxh64::Xxh64(std::uint64_t seed)
    : lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1}, seed_(seed) {}

void Xxh64::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // nothing may have no address
  const std::size_t held = size_ % kStripe;
  size_ += bytes.size();
  if (held != 0) {
    const std::size_t taken = std::min(kStripe - held, bytes.size());
    std::memcpy(rest_ + held, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    if (held + taken < kStripe) return;
    for (int i = 0; i < 4; ++i) lanes_[i] = round(lanes_[i], load_le<std::uint64_t>(rest_ + 8 * i));
  }
  std::uint64_t lanes[4] = {lanes_[0], lanes_[1], lanes_[2], lanes_[3]};
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; static_cast<std::size_t>(end - at) >= kStripe; at += kStripe) {
    for (int i = 0; i < 4; ++i) lanes[i] = round(lanes[i], load_le<std::uint64_t>(at + 8 * i));
  }
  std::copy_n(lanes, 4, lanes_);
  if (at != end) std::memcpy(rest_, at, static_cast<std::size_t>(end - at));
}

std::uint64_t Xxh64::value() const {
  std::uint64_t hash = seed_ + kPrime5;
  if (size_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = merge(hash, lane);
  }
  hash += size_;
  const std::byte* at = rest_;
  const std::byte* const end = rest_ + size_ % kStripe;
  for (; end - at >= 8; at += 8) {
    hash = std::rotl(hash ^ round(0, load_le<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  }
  for (; end - at >= 4; at += 4) {
    hash = std::rotl(hash ^ (load_le<std::uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
  }
  for (; at < end; ++at) {
    hash = std::rotl(hash ^ (std::to_integer<std::uint64_t>(*at) * kPrime5), 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

ArchiveWriter::ArchiveWriter(std::string_view kind, std::uint32_t version) {
  if (kind.empty() || kind.size() > kKindSize) {
    throw std::invalid_argument("archive kind: must have 1 to 8 characters");
  }
  char padded[kKindSize] = {};
  std::memcpy(padded, kind.data(), kind.size());
  append(kMagic, sizeof kMagic);
  append(&kEnvelope, sizeof kEnvelope);
  append(padded, sizeof padded);
  append(&version, sizeof version);
  value<std::uint64_t>(0);  // the payload's size, known when it is sealed
}

void ArchiveWriter::append(const void* data, std::size_t size) {
  if (sealed_) throw std::logic_error("archive: is sealed, nothing can be added");
  if (size == 0) return;  // an empty column may have no address
  const std::size_t at = buffer_.size();
  buffer_.resize(at + size);
  std::memcpy(buffer_.data() + at, data, size);
}

void ArchiveWriter::align() {
  constexpr std::byte kZeros[kArrayAlignment] = {};
  append(kZeros, padding(buffer_.size() + borrowed_size_));
}

void ArchiveWriter::borrow(std::span<const std::byte> bytes) {
  borrowed_.push_back({buffer_.size(), bytes});
  borrowed_size_ += bytes.size();
}

void ArchiveWriter::text(std::string_view bytes) {
  column(std::span<const char>(bytes.data(), bytes.size()));
}

void ArchiveWriter::seal() {
  if (sealed_) return;
  const std::uint64_t payload = buffer_.size() + borrowed_size_ - kHeader;
  std::memcpy(buffer_.data() + kSizeAt, &payload, sizeof payload);
  Xxh64 hash;
  std::size_t from = 0;
  for (const Borrowed& piece : borrowed_) {
    hash.add(std::span(buffer_).subspan(from, piece.behind - from));
    hash.add(piece.bytes);
    from = piece.behind;
  }
  hash.add(std::span(buffer_).subspan(from));
  value(hash.value());
  sealed_ = true;
}

void ArchiveWriter::each_piece(const std::function<void(std::span<const std::byte>)>& write) {
  seal();
  std::size_t from = 0;
  for (const Borrowed& piece : borrowed_) {
    write(std::span(buffer_).subspan(from, piece.behind - from));
    write(piece.bytes);
    from = piece.behind;
  }
  write(std::span(buffer_).subspan(from));
}

std::size_t ArchiveWriter::size() {
  seal();
  return buffer_.size() + borrowed_size_;
}

std::vector<std::byte> ArchiveWriter::bytes() {
  std::vector<std::byte> all;
  all.reserve(size());
  each_piece(
      [&](std::span<const std::byte> piece) { all.insert(all.end(), piece.begin(), piece.end()); });
  return all;
}

void ArchiveWriter::save(const std::string& path) {
  const std::filesystem::path target(path);
  std::filesystem::path beside(target);
  beside += ".new";
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    each_piece([&](std::span<const std::byte> piece) {
      file.write(reinterpret_cast<const char*>(piece.data()),
                 static_cast<std::streamsize>(piece.size()));
    });
    file.close();
    if (!file) {
      std::error_code ignored;
      std::filesystem::remove(beside, ignored);
      throw std::runtime_error("cannot write " + beside.string());
    }
  }
  std::filesystem::rename(beside, target);
}

ArchiveReader::ArchiveReader(std::vector<std::byte> bytes, std::string_view kind,
                             std::uint32_t version) {
  auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  view_ = *held;
  owner_ = std::move(held);
  check(kind, version);
}

ArchiveReader::ArchiveReader(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                             std::string_view kind, std::uint32_t version)
    : view_(bytes), owner_(std::move(owner)) {
  check(kind, version);
}

void ArchiveReader::check(std::string_view kind, std::uint32_t version) {
  const std::byte* const data = view_.data();
  if (view_.size() < kHeader + 8 || std::memcmp(data, kMagic, sizeof kMagic) != 0) {
    throw ArchiveError("not a toolroll index: the file does not start like one");
  }
  if (load_le<std::uint64_t>(data + kSizeAt) != view_.size() - kHeader - 8) {
    throw ArchiveError("damaged index: truncated or extended, its size is not the one it states");
  }
  end_ = view_.size() - 8;
  if (load_le<std::uint64_t>(data + end_) != xxh64(std::span(data, end_))) {
    throw ArchiveError("damaged index: its checksum does not match its content");
  }
  char padded[kKindSize] = {};
  std::memcpy(padded, kind.data(), std::min(kind.size(), kKindSize));
  if (std::memcmp(data + 12, padded, kKindSize) != 0) {
    throw ArchiveError("another kind of index: expected '" + std::string(kind) + "'");
  }
  const auto envelope = load_le<std::uint32_t>(data + 8);
  const auto found = load_le<std::uint32_t>(data + 12 + kKindSize);
  if (envelope != kEnvelope || found != version) {
    throw ArchiveError("index of version " + std::to_string(found) + ", this build reads version " +
                       std::to_string(version) + ": build the index again");
  }
  at_ = kHeader;
}

ArchiveReader ArchiveReader::load(const std::string& path, std::string_view kind,
                                  std::uint32_t version) {
  // A folder opens like a file on Linux, and states an absurd size.
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable))
    throw ArchiveError("cannot read " + path);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw ArchiveError("cannot read " + path);
  const std::streamoff size = file.tellg();
  if (size < 0) throw ArchiveError("cannot read " + path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), size);
  if (!file) throw ArchiveError("cannot read " + path);
  return ArchiveReader(std::move(bytes), kind, version);
}

std::size_t ArchiveReader::claim(std::uint64_t count, std::size_t size) const {
  if (count > (end_ - at_) / size) throw ArchiveError("damaged index: a column is longer than it");
  return static_cast<std::size_t>(count);
}

void ArchiveReader::take(void* out, std::size_t size) {
  if (size > end_ - at_) throw ArchiveError("damaged index: it ends too early");
  if (size != 0) std::memcpy(out, view_.data() + at_, size);
  at_ += size;
}

void ArchiveReader::align() {
  const std::size_t size = padding(at_);
  if (size > end_ - at_) throw ArchiveError("damaged index: it ends too early");
  const auto zeros = view_.subspan(at_, size);
  if (std::ranges::any_of(zeros, [](std::byte byte) { return byte != std::byte{0}; })) {
    throw ArchiveError("damaged index: an array is out of its place");
  }
  at_ += size;
}

std::string ArchiveReader::text() {
  const std::vector<char> bytes = column<char>();
  return {bytes.begin(), bytes.end()};
}

void ArchiveReader::finish() const {
  if (at_ != end_) throw ArchiveError("damaged index: it is longer than its content");
}

}  // namespace toolroll
