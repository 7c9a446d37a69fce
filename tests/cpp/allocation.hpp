/// Makes an allocation fail, to see what an exception leaves behind.
#pragma once

#include <cstddef>

namespace toolroll {

/// From now on, this thread's n-th call of operator new throws std::bad_alloc, once (0: the next
/// one). Those before and after it succeed.
void fail_allocation(std::size_t n);

/// Takes it back. Whether no allocation has failed since.
bool allow_allocations();

}  // namespace toolroll
