// tile: a block stages a tile of whole rows in shared memory and writes it back permuted.
//
//   y[r, j] = x[r, perm[j]]            0 <= r < rows, 0 <= j < features
//
// Shapes    x (rows, features) with any row stride;  y (rows, features) dense
//           offsets (tile_elements,): where in the tile the element of y comes from
// Units     elements, row_stride, tile_elements and features count elements, never bytes
// Types     PERM_ELEMENT  unsigned, as wide as an element: only bits move, so NaNs survive
//           PERM_OFFSET   unsigned, holds tile_elements - 1
//           PERM_LOAD     what x is read by: divides the alignment of every contiguous piece
//           PERM_STORE    what y is written by: divides the alignment of every tile
// Counts    PERM_LOADS and PERM_STORES, words of a whole tile that each thread moves
// Launch    block (PERM_THREADS), grid (ceil(elements / tile_elements)), one tile in shared memory
// Memory    reads and writes coalesce; offsets come from L2, the same ones for every block
// Needs     a row that fits in shared memory; x and y aligned to one element
// Source    a tile of whole rows is one block-diagonal permutation, so one table serves it; several
//           blocks on a multiprocessor hide each other's latencies, no pipeline is needed

constexpr int load_elements = PERM_LOAD_BYTES / PERM_ELEMENT_BYTES;
constexpr int store_elements = PERM_STORE_BYTES / PERM_ELEMENT_BYTES;
constexpr int offsets_bytes = store_elements * PERM_OFFSET_BYTES;
// All the loads of one thread in flight at once; longer loops spill when they are unrolled whole,
// those of narrow words first.
constexpr int load_unroll = PERM_LOADS <= (PERM_LOAD_BYTES > 4 ? 7 : 6) ? PERM_LOADS : 4;
constexpr int store_unroll = PERM_STORES <= 7 ? PERM_STORES : 4;

struct __align__(PERM_STORE_BYTES) Store {
    PERM_ELEMENT element[store_elements];
};
struct __align__((offsets_bytes < 16 ? offsets_bytes : 16)) Offsets {
    PERM_OFFSET offset[store_elements];
};

// Copies one word to shared memory, in the background where the hardware can; wait_for_copies()
// makes this thread's copies visible to it.
__device__ __forceinline__ void copy_to_shared(PERM_LOAD* shared, const PERM_LOAD* global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && PERM_LOAD_BYTES >= 4
    const unsigned int address = (unsigned int)__cvta_generic_to_shared(shared);
#if PERM_LOAD_BYTES == 16  // past L1: nothing is read twice
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global)
                 : "memory");
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(global),
                 "n"(PERM_LOAD_BYTES)
                 : "memory");
#endif
#else
    *shared = *global;
#endif
}

__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && PERM_LOAD_BYTES >= 4
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(PERM_THREADS, PERM_BLOCKS)
    tile(const PERM_ELEMENT* __restrict__ x, PERM_ELEMENT* __restrict__ y, const long long elements,
         const long long row_stride, const PERM_OFFSET* __restrict__ offsets,
         const long long tile_elements, const long long features) {
    extern __shared__ uint4 shared[];
    PERM_ELEMENT* const staged = (PERM_ELEMENT*)shared;

    const int t = threadIdx.x;
    const long long first = blockIdx.x * tile_elements;
    const long long left = elements - first;
    const int here = (int)(left < tile_elements ? left : tile_elements);

#if PERM_DENSE
    const PERM_ELEMENT* const source = x + first;
    const int loads = here / load_elements;
#pragma unroll load_unroll
    for (int k = 0; k < PERM_LOADS; ++k) {
        const int i = t + k * PERM_THREADS;
        if (i < loads) copy_to_shared((PERM_LOAD*)shared + i, (const PERM_LOAD*)source + i);
    }
    const int loaded = loads * load_elements + t;  // less than a word is left at the end of x
    if (loaded < here) staged[loaded] = source[loaded];
#else
    const PERM_ELEMENT* const source = x + first / features * row_stride;
    const unsigned int row_loads = (unsigned int)features / load_elements;
    const unsigned int loads = here / load_elements;  // whole rows, so nothing is left over
#pragma unroll load_unroll
    for (int k = 0; k < PERM_LOADS; ++k) {
        const unsigned int i = t + k * PERM_THREADS;
        const unsigned int row = i / row_loads;
        const PERM_LOAD* const from = (const PERM_LOAD*)(source + row * row_stride);
        if (i < loads) copy_to_shared((PERM_LOAD*)shared + i, from + (i - row * row_loads));
    }
#endif
    wait_for_copies();
    __syncthreads();

    const int stores = here / store_elements;
#pragma unroll store_unroll
    for (int k = 0; k < PERM_STORES; ++k) {
        const int i = t + k * PERM_THREADS;
        if (i < stores) {
            const Offsets from = ((const Offsets*)offsets)[i];
            Store word;
#pragma unroll
            for (int e = 0; e < store_elements; ++e) word.element[e] = staged[from.offset[e]];
            ((Store*)(y + first))[i] = word;
        }
    }
    const int stored = stores * store_elements + t;  // less than a word is left at the end of y
    if (stored < here) y[first + stored] = staged[offsets[stored]];
}
