/// Asks for memory that will be read soon.
#pragma once

namespace toolroll {

inline void prefetch([[maybe_unused]] const void* at) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(at);
#endif
}

}  // namespace toolroll
