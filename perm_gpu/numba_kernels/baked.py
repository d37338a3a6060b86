"""The baked permutation of raw_kernels/baked.cu in Numba: the words are kernel parameters."""

from numba import cuda, types

from perm_gpu.numba_kernels import UNSIGNED, pointer


def build(*, element_bytes, index_bytes, threads, features, dense):
    """The kernel for one specialisation; the fields are the PERM_ macros of baked.cu."""
    index = UNSIGNED[index_bytes]
    words = (features + 7) // 8

    def baked(x, y, elements, row_stride, perm):
        i = index(index(cuda.blockIdx.x) * index(threads) + index(cuda.threadIdx.x))
        if i < index(elements):
            j = types.int32(i % index(features))
            # Numba cannot index parameters in the constant bank: a chain of selects, no branches.
            word = perm[0]
            for k in range(1, words):
                if j >> 3 == k:
                    word = perm[k]
            source = types.int64((word >> types.uint64((j & 7) * 8)) & types.uint64(255))
            if dense:
                y[types.int64(i)] = x[types.int64(i) - j + source]
            else:
                row = types.int64(i // index(features))
                y[types.int64(i)] = x[row * row_stride + source]

    signature = types.void(
        pointer(element_bytes),
        pointer(element_bytes),
        types.int64,
        types.int64,
        types.UniTuple(types.uint64, words),
    )
    return baked, signature, tuple(range(4 + words))
