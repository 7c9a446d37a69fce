// toolroll_tests [FILE...]: runs the tests, or those of files with these names.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include "allocation.hpp"
#include "check.hpp"

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

int main(int count, char** arguments) {
  using namespace toolroll::testing;
  std::size_t ran = 0;
  std::size_t failed = 0;
  for (const TestCase& test : test_cases()) {
    const auto is_of = [&](std::string_view name) {
      return std::string_view(test.file).ends_with(name);
    };
    if (count > 1 && std::none_of(arguments + 1, arguments + count, is_of)) continue;
    const std::size_t before = failures;
    try {
      test.run();
    } catch (const Stop&) {  // counted
    } catch (const std::exception& error) {
      (void)holds(false, test.file, 0, error.what());
    }
    ++ran;
    if (failures != before) {
      ++failed;
      std::cerr << "failed: " << test.title << "\n";
    }
  }
  std::cout << ran << " tests, " << failed << " failed\n";
  return ran == 0 || failed != 0 ? 1 : 0;
}
