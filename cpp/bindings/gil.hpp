/// When a call releases the interpreter (the GIL), and when it keeps it.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>

namespace toolroll::bindings {

/// Calls below this many nanoseconds keep the interpreter. Another Python thread that gets it keeps
/// it for the switch interval, 5 ms: a call that releases it for 10 us waits five hundred times as
/// long to get it back. Above the threshold other threads gain more than the call may lose
/// (`python -m bench --only threads`). `pytest bench/micro` measures the costs that callers add up.
inline constexpr double kWorthReleasingNs = 200'000;

/// Releases the interpreter during its lifetime if the condition holds.
///
/// Callers estimate the work beforehand from rows times width, postings, bytes of text or arms. The
/// estimate need not be exact: at the threshold both choices cost about the same.
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
