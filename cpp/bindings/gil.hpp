/// When a call releases the interpreter (the GIL), and when it keeps it.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>

namespace toolroll::bindings {

/// Work below this many nanoseconds keeps the interpreter. Another Python thread that gets it keeps
/// it for the switch interval, 5 ms: whoever released it for 10 us waits five hundred times as long
/// to go on. Above it, other threads gain more than this call may lose.
inline constexpr double kWorthReleasingNs = 200'000;

/// Releases the interpreter while it lives, if the work is worth it.
///
/// The expectation comes from what is known before the work: rows times width, postings, bytes of
/// text, arms. It need not be exact: at the threshold both choices cost about the same.
class GilReleasedIf {
 public:
  explicit GilReleasedIf(bool is_worth_it) {
    if (is_worth_it) released_.emplace();
  }
  GilReleasedIf(const GilReleasedIf&) = delete;
  GilReleasedIf& operator=(const GilReleasedIf&) = delete;

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

}  // namespace toolroll::bindings
