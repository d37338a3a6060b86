// All CUDA threads of a block in one thread, switched at barriers: fast, and the same every time.
//
// Each runs until its next barrier before the next one begins, in order or in reverse, so a barrier
// that is missing shows as a wrong result in one of the two, and one that not all reach is seen.

#include <ucontext.h>

#include <vector>

#include "runner.h"

namespace {
constexpr std::size_t stack_bytes = 64 * 1024;

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool finished;
};
std::vector<Fiber> fibers(threads_limit);
ucontext_t scheduler;
unsigned int current;
void** arguments;

void body() {
    run_thread(arguments);
    fibers[current].finished = true;
}
}  // namespace

extern "C" void __syncthreads() { swapcontext(&fibers[current].context, &scheduler); }

extern "C" int launch(unsigned int first, unsigned int count, unsigned int threads,
                      std::size_t shared_bytes, void** parameters, int reversed) {
    arguments = parameters;
    for (unsigned int block = first; block < first + count; ++block) {
        open_shared(shared_bytes);
        for (unsigned int t = 0; t < threads; ++t) {
            Fiber& fiber = fibers[t];
            fiber.stack.resize(stack_bytes);
            fiber.finished = false;
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.data();
            fiber.context.uc_stack.ss_size = stack_bytes;
            fiber.context.uc_link = &scheduler;
            makecontext(&fiber.context, body, 0);
        }
        unsigned int waiting = threads;
        while (waiting > 0) {
            waiting = 0;
            for (unsigned int turn = 0; turn < threads; ++turn) {
                current = reversed ? threads - 1 - turn : turn;
                threadIdx = {current, 0, 0};
                blockIdx = {block, 0, 0};
                swapcontext(&scheduler, &fibers[current].context);
                if (!fibers[current].finished) ++waiting;
            }
            if (waiting != 0 && waiting != threads) return (int)waiting;
        }
    }
    return 0;
}
