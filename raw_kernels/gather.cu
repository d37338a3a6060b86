// gather: one thread per PERM_ITEMS elements of y, read straight from global memory.
//
//   y[r, j] = x[r, perm[j]]            0 <= r < rows, 0 <= j < features
//
// Shapes    x (rows, features) with any row stride;  y (rows, features) dense;  perm (features,)
// Units     elements, row_stride and features count elements, never bytes
// Types     PERM_ELEMENT  unsigned, as wide as an element: only bits move, so NaNs survive
//           PERM_OFFSET   unsigned, holds features - 1
//           PERM_INDEX    unsigned, holds rows * features and one block more
// Launch    block (PERM_THREADS), grid (ceil(elements / (PERM_THREADS * PERM_ITEMS)))
// Memory    writes coalesce; reads as far as perm keeps neighbours together
// Needs     x and y aligned to one element
// Source    the textbook gather, the baseline that the other variants must beat

extern "C" __global__ void __launch_bounds__(PERM_THREADS)
    gather(const PERM_ELEMENT* __restrict__ x, PERM_ELEMENT* __restrict__ y,
           const long long elements, const long long row_stride,
           const PERM_OFFSET* __restrict__ perm, const long long features) {
    const long long first = blockIdx.x * (long long)(PERM_THREADS * PERM_ITEMS) + threadIdx.x;
    PERM_ELEMENT value[PERM_ITEMS];
#pragma unroll
    for (int k = 0; k < PERM_ITEMS; ++k) {
        const long long i = first + k * PERM_THREADS;
        if (i < elements) {
            // 64-bit division is some 70 instructions: PERM_INDEX is no wider than it must be.
            const PERM_INDEX row = (PERM_INDEX)i / (PERM_INDEX)features;
            const PERM_INDEX j = (PERM_INDEX)i - row * (PERM_INDEX)features;
            value[k] = x[(long long)row * row_stride + (long long)perm[j]];
        }
    }
#pragma unroll
    for (int k = 0; k < PERM_ITEMS; ++k) {
        const long long i = first + k * PERM_THREADS;
        if (i < elements) y[i] = value[k];
    }
}
