"""The gather of raw_kernels/gather.cu in Numba: one thread per `items` elements of y."""

from numba import cuda, types

from perm_gpu.numba_kernels import UNSIGNED, pointer


def build(*, element_bytes, offset_bytes, index_bytes, threads, items):
    """The kernel for one specialisation; the fields are the PERM_ macros of gather.cu."""
    element, index = UNSIGNED[element_bytes], UNSIGNED[index_bytes]

    def gather(x, y, elements, row_stride, perm, features):
        first = types.int64(cuda.blockIdx.x) * (threads * items) + cuda.threadIdx.x
        value = cuda.local.array(items, element)
        for k in range(items):
            i = first + k * threads
            if i < elements:
                row = index(i) // index(features)
                j = index(i) - row * index(features)
                value[k] = x[types.int64(row) * row_stride + types.int64(perm[types.int64(j)])]
        for k in range(items):
            i = first + k * threads
            if i < elements:
                y[i] = value[k]

    signature = types.void(
        pointer(element_bytes),
        pointer(element_bytes),
        types.int64,
        types.int64,
        pointer(offset_bytes),
        types.int64,
    )
    return gather, signature, (0, 1, 2, 3, 4, 5)
