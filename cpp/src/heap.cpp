#include "toolroll/heap.hpp"

#include <cstdlib>  // defines __GLIBC__

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace toolroll {

void release_free_memory() noexcept {
#if defined(__GLIBC__)
  static_cast<void>(malloc_trim(0));
#endif
}

}  // namespace toolroll
