// The shared memory of the one block that runs.

#include "runner.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#endif

thread_local Index threadIdx, blockIdx;
uint4 shared[shared_limit / sizeof(uint4)];

void open_shared(std::size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(shared, sizeof shared);
    std::memset(shared, 0xA5, bytes);
    ASAN_POISON_MEMORY_REGION((char*)shared + bytes, sizeof shared - bytes);
}
