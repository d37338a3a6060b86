// What threads.cpp and fibers.cpp have in common: they run the kernel that is linked with them.

#pragma once
#include <cstddef>
#include <cstring>

#include "shim.h"

constexpr std::size_t shared_limit = 232448;
constexpr unsigned int threads_limit = 1024;

extern "C" void run_thread(void** parameters);

// Runs blocks first .. first + count - 1 one after the other. Returns 0, or how many threads waited
// at a barrier that others had passed by.
extern "C" int launch(unsigned int first, unsigned int count, unsigned int threads,
                      std::size_t shared_bytes, void** parameters, int reversed);
void open_shared(std::size_t bytes);  // bytes may be used, filled with poison; the rest may not
