// What a kernel of raw_kernels/ needs to be compiled by a C++ compiler and run on the CPU.
//
// Included before the kernel, which is not changed. Whoever runs it (threads.cpp or fibers.cpp)
// sets the indices and waits at barriers.

#pragma once
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__
#define __shared__  // extern __shared__ names the one array below
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};
struct Index {
    unsigned int x, y, z;
};

extern thread_local Index threadIdx, blockIdx;
extern uint4 shared[];
extern "C" void __syncthreads();

// Calls a kernel with parameters as cuLaunchKernel takes them: the address of each.
template <class... Types, std::size_t... places>
void call(void (*kernel)(Types...), void** parameters, std::index_sequence<places...>) {
    kernel(*(Types*)parameters[places]...);
}
template <class... Types>
void call(void (*kernel)(Types...), void** parameters) {
    call(kernel, parameters, std::index_sequence_for<Types...>{});
}
