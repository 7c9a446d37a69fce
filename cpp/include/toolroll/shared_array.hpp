/// Numbers that never change, in memory of their own or in a mapped file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace toolroll {

/// A read-only array with a share in the memory that holds it. Copies share that memory, so copying
/// is O(1). Reading costs what reading a std::vector costs. Safe to read from many threads.
///
/// An index builds a std::vector and moves it in here. ArchiveReader::array() gives the same type
/// as a view of a file, so that the index need not know where its numbers are.
template <typename T>
class SharedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SharedArray() = default;
  /// Takes the numbers over.
  SharedArray(std::vector<T> numbers) {  // NOLINT(google-explicit-constructor): a vector is one
    if (numbers.empty()) return;
    auto held = std::make_shared<const std::vector<T>>(std::move(numbers));
    view_ = *held;
    capacity_ = held->capacity();
    owner_ = std::move(held);
  }
  SharedArray(std::initializer_list<T> numbers) : SharedArray(std::vector<T>(numbers)) {}
  /// A view of memory that stays valid while `owner` lives.
  SharedArray(std::span<const T> view, std::shared_ptr<const void> owner)
      : view_(view), owner_(std::move(owner)) {}

  const T* data() const { return view_.data(); }
  std::size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  const T& operator[](std::size_t i) const { return view_[i]; }
  const T& front() const { return view_.front(); }
  const T& back() const { return view_.back(); }
  auto begin() const { return view_.begin(); }
  auto end() const { return view_.end(); }
  std::span<const T> span() const { return view_; }
  operator std::span<const T>() const { return view_; }  // NOLINT(google-explicit-constructor)

  bool operator==(const SharedArray& other) const { return std::ranges::equal(view_, other.view_); }

  /// The bytes of memory of its own; 0 for a view.
  std::size_t memory_bytes() const { return capacity_ * sizeof(T); }

 private:
  std::span<const T> view_;
  std::shared_ptr<const void> owner_;
  std::size_t capacity_ = 0;  // of a vector of its own
};

}  // namespace toolroll
