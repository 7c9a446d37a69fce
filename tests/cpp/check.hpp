/// The part of a test framework that these tests need, so that they build wherever the core does.
///
/// TEST_CASE("title") { ... } is a test. In it:
///   CHECK(condition)                     goes on after a failure
///   REQUIRE(condition)                   ends the test after a failure
///   CHECK_THROWS_AS(expression, Type)
///   CHECK_THROWS_WITH_AS(expression, what, Type)
///   CAPTURE(value)                       failures in this scope print the value
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

namespace toolroll::testing {

struct TestCase {
  const char* file;
  const char* title;
  void (*run)();
};

inline std::vector<TestCase>& test_cases() {
  static std::vector<TestCase> all;
  return all;
}

struct Registration {
  Registration(const char* file, const char* title, void (*run)()) {
    test_cases().push_back({file, title, run});
  }
};

/// Ends a test.
struct Stop {};

inline std::atomic<std::size_t> failures = 0;

/// A value of the scope. Nothing is allocated unless a check fails.
class Captured {
 public:
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  static void print_all() {
    for (const Captured* one = innermost; one != nullptr; one = one->outer_) one->print();
  }

 protected:
  Captured() : outer_(innermost) { innermost = this; }
  ~Captured() { innermost = outer_; }
  virtual void print() const = 0;

 private:
  static inline thread_local const Captured* innermost = nullptr;
  const Captured* outer_;
};

template <typename Print>
class Capture final : public Captured {
 public:
  explicit Capture(Print print) : print_(print) {}
  ~Capture() = default;

 private:
  void print() const override { print_(); }
  Print print_;
};

inline bool holds(bool condition, const char* file, int line, const char* what) {
  if (!condition) {
    ++failures;
    std::cerr << file << ":" << line << ": " << what << "\n";
    Captured::print_all();
  }
  return condition;
}

/// Whether two numbers differ by little, relative to the greater one, or to 1 if both are smaller.
inline bool is_near(double a, double b, double epsilon = 1e-5) {
  return std::abs(a - b) < epsilon * (1.0 + std::max(std::abs(a), std::abs(b)));
}

}  // namespace toolroll::testing

#define TOOLROLL_JOIN_(a, b) a##b
#define TOOLROLL_JOIN(a, b) TOOLROLL_JOIN_(a, b)

#define TEST_CASE_(title, name)                                                                  \
  static void name();                                                                            \
  static const toolroll::testing::Registration TOOLROLL_JOIN(name, _registered)(__FILE__, title, \
                                                                                name);           \
  static void name()
#define TEST_CASE(title) TEST_CASE_(title, TOOLROLL_JOIN(test_case_, __LINE__))

#define CHECK(...) \
  (void)toolroll::testing::holds(static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)
#define REQUIRE(...)                                                                               \
  if (!toolroll::testing::holds(static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)) \
  throw toolroll::testing::Stop()

#define CHECK_THROWS_(expression, type, condition)                                               \
  do {                                                                                           \
    bool is_thrown = false;                                                                      \
    try {                                                                                        \
      (void)(expression);                                                                        \
    } catch ([[maybe_unused]] const type& error) {                                               \
      is_thrown = condition;                                                                     \
    } catch (...) {                                                                              \
    }                                                                                            \
    (void)toolroll::testing::holds(is_thrown, __FILE__, __LINE__, #expression " throws " #type); \
  } while (false)
#define CHECK_THROWS_AS(expression, type) CHECK_THROWS_(expression, type, true)
#define CHECK_THROWS_WITH_AS(expression, text, type) \
  CHECK_THROWS_(expression, type, error.what() == std::string_view(text))

#define CAPTURE(value)                            \
  const toolroll::testing::Capture TOOLROLL_JOIN( \
      captured_, __LINE__)([&] { std::cerr << "  " #value ": " << (value) << "\n"; })
