#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "allocation.hpp"

namespace {

thread_local std::ptrdiff_t left = -1;  // allocations before the one that fails; -1: none fails

}  // namespace

void toolroll::fail_allocation(std::size_t n) { left = static_cast<std::ptrdiff_t>(n); }

bool toolroll::allow_allocations() {
  const bool none_failed = left >= 0;
  left = -1;
  return none_failed;
}

void* operator new(std::size_t size) {
  if (left >= 0 && left-- == 0) throw std::bad_alloc();
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// std::stable_sort's: it must come from the same place, since operator delete frees both.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size == 0 ? 1 : size);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
