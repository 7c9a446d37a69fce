/// The memory that the C library keeps after it was freed.
#pragma once

namespace toolroll {

/// Returns free memory of the heap to the system, if the C library can (glibc). Building a large
/// catalog frees a kilobyte of text a tool, scattered over the heap, and glibc would keep these
/// pages. Safe to call from any thread; some milliseconds for a large heap.
void release_free_memory() noexcept;

}  // namespace toolroll
