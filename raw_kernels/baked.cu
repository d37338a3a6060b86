// baked: the permutation travels in the kernel's parameters, eight 8-bit entries to a word.
//
//   y[r, j] = x[r, perm[j]]            0 <= r < rows, 0 <= j < PERM_FEATURES <= 256
//
// Shapes    x (rows, PERM_FEATURES), dense if PERM_DENSE, else with any row stride
//           y (rows, PERM_FEATURES) dense
// Units     elements and row_stride count elements, never bytes
// Types     PERM_ELEMENT  unsigned, as wide as an element: only bits move, so NaNs survive
//           PERM_INDEX    unsigned, holds rows * PERM_FEATURES and one block more
// Launch    block (PERM_THREADS), grid (ceil(elements / PERM_THREADS))
// Memory    one exposed latency, the load of x: the words lie in the constant bank, where the 32
//           lanes of a warp read five different ones at most
// Needs     x and y aligned to one element
// Source    for launch-bound sizes: a table in global memory would be a second, dependent latency

struct Words {
    unsigned long long word[(PERM_FEATURES + 7) / 8];
};

// Without __grid_constant__ the words are copied to local memory before they are indexed.
extern "C" __global__ void __launch_bounds__(PERM_THREADS)
    baked(const PERM_ELEMENT* __restrict__ x, PERM_ELEMENT* __restrict__ y,
          const long long elements, const long long row_stride,
          const __grid_constant__ Words perm) {
    const PERM_INDEX i = (PERM_INDEX)blockIdx.x * PERM_THREADS + threadIdx.x;
    if (i >= (PERM_INDEX)elements) return;

    const unsigned int j = (unsigned int)(i % PERM_FEATURES);
    const unsigned int source = (unsigned int)(perm.word[j / 8] >> (8 * (j % 8))) & 255;
#if PERM_DENSE  // the code is fetched from memory when the launch is cold, so it is kept short
    y[i] = x[i - j + source];
#else
    y[i] = x[(long long)(i / PERM_FEATURES) * row_stride + source];
#endif
}
