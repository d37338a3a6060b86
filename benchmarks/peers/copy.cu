// The roofs: what a kernel that only copies takes.
//
//   y[i] = x[i]                        0 <= i < words
//
// Units     words count what is moved: 16 bytes in vector_copy, 4 in word_copy
// Launch    vector_copy: block 256, grid ceil(words / 1024);  word_copy: block 256, grid ceil(words
// / 256)

extern "C" __global__ void __launch_bounds__(256)
    vector_copy(const uint4* __restrict__ x, uint4* __restrict__ y, const long long words) {
    const long long first = blockIdx.x * 1024LL + threadIdx.x;
    uint4 value[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (first + k * 256 < words) value[k] = x[first + k * 256];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (first + k * 256 < words) y[first + k * 256] = value[k];
    }
}

extern "C" __global__ void __launch_bounds__(256)
    word_copy(const unsigned int* __restrict__ x, unsigned int* __restrict__ y,
              const long long words) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < words) y[i] = x[i];
}
