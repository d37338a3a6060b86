"""The tile of raw_kernels/tile.cu in Numba: whole rows staged in shared memory.

Numba has no access wider than 8 bytes and no asynchronous copy: words of at most 8 bytes go through
registers, four of them in flight. A packed word of offsets is read for each word of y.
"""

from numba import cuda, types

from perm_gpu.numba_kernels import UNSIGNED, pointer

BATCH = 4
"""Words of one thread in flight."""


def build(
    *, element_bytes, offset_bytes, threads, blocks, load_bytes, store_bytes, loads, stores, dense
):  # `blocks` bounds the registers: the toolchain tells the compiler
    """The kernel for one specialisation; the fields are the PERM_ macros of tile.cu."""
    element = UNSIGNED[element_bytes]
    load_width = min(load_bytes, 8)
    load_elements = load_width // element_bytes
    load_word = UNSIGNED[load_width]
    store_elements = min(store_bytes // element_bytes, 8 // element_bytes, 8 // offset_bytes)
    store_word = UNSIGNED[store_elements * element_bytes]
    offset_bits = 8 * offset_bytes
    mask = types.uint64((1 << offset_bits) - 1)
    element_bits = 8 * element_bytes
    batches = -(-loads * (load_bytes // load_width) // BATCH)
    words_stored = stores * (store_bytes // (store_elements * element_bytes))

    def tile(x, x_words, y, y_words, elements, row_stride, offsets, tile_elements, features):
        shared = cuda.shared.array(0, load_word)
        staged = cuda.shared.array(0, element)
        t = types.int64(cuda.threadIdx.x)
        first = types.int64(cuda.blockIdx.x) * tile_elements
        here = min(tile_elements, elements - first)

        words = here // load_elements
        row_loads = types.int32(features // load_elements)
        row_words = row_stride // load_elements
        base = first // load_elements if dense else first // features * row_words
        batch = cuda.local.array(BATCH, load_word)
        for b in range(batches):
            for k in range(BATCH):
                i = t + (b * BATCH + k) * threads
                if i < words:
                    if dense:
                        batch[k] = x_words[base + i]
                    else:
                        row = types.int32(i) // row_loads
                        column = types.int32(i) - row * row_loads
                        batch[k] = x_words[base + row * row_words + column]
            for k in range(BATCH):
                i = t + (b * BATCH + k) * threads
                if i < words:
                    shared[i] = batch[k]
        loaded = words * load_elements + t
        if dense and loaded < here:
            staged[loaded] = x[first + loaded]
        cuda.syncthreads()

        words = here // store_elements
        base = first // store_elements
        for s in range(words_stored):
            i = t + s * threads
            if i < words:
                packed = types.uint64(offsets[i])
                word = types.uint64(0)
                for k in range(store_elements):
                    source = types.int64((packed >> types.uint64(k * offset_bits)) & mask)
                    word |= types.uint64(staged[source]) << types.uint64(k * element_bits)
                y_words[base + i] = store_word(word)
        stored = words * store_elements + t
        if stored < here:
            packed = types.uint64(offsets[words])
            source = types.int64((packed >> types.uint64(t * offset_bits)) & mask)
            y[first + stored] = staged[source]

    signature = types.void(
        pointer(element_bytes),
        pointer(load_width),
        pointer(element_bytes),
        pointer(store_elements * element_bytes),
        types.int64,
        types.int64,
        pointer(store_elements * offset_bytes),
        types.int64,
        types.int64,
    )
    return tile, signature, (0, 0, 1, 1, 2, 3, 4, 5, 6)
