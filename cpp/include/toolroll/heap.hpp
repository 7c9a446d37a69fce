/// The memory that the C library keeps after it was freed.
#pragma once

namespace toolroll {

/// Gives the system back what is free on the heap, where the C library can (glibc). Building a
/// large catalog frees a kilobyte of text a tool between what stays, and glibc would keep these
/// pages. Safe to call from any thread; some milliseconds for a large heap.
void release_free_memory() noexcept;

}  // namespace toolroll
