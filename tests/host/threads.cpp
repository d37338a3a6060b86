// One thread of the operating system for each CUDA thread: what ThreadSanitizer can watch.
//
// A barrier that not all threads reach hangs here, so whoever calls this sets a time limit.

#include <pthread.h>

#include <thread>
#include <vector>

#include "runner.h"

namespace {
// One barrier would do, but ThreadSanitizer takes what a thread did before it waits for the next
// time as seen by those that are still leaving from this time, and misses races.
constexpr unsigned int barriers = 4;
pthread_barrier_t barrier[barriers];
thread_local unsigned int waited;
}  // namespace

extern "C" void __syncthreads() { pthread_barrier_wait(&barrier[waited++ % barriers]); }

extern "C" int launch(unsigned int first, unsigned int count, unsigned int threads,
                      std::size_t shared_bytes, void** parameters, int) {
    for (pthread_barrier_t& one : barrier) pthread_barrier_init(&one, nullptr, threads);
    std::vector<std::thread> running;
    for (unsigned int t = 0; t < threads; ++t) {
        running.emplace_back([=] {
            for (unsigned int block = first; block < first + count; ++block) {
                if (t == 0) open_shared(shared_bytes);
                __syncthreads();
                threadIdx = {t, 0, 0};
                blockIdx = {block, 0, 0};
                run_thread(parameters);
                __syncthreads();
            }
        });
    }
    for (std::thread& thread : running) thread.join();
    for (pthread_barrier_t& one : barrier) pthread_barrier_destroy(&one);
    return 0;
}
