// One launch in a process of its own, for the sanitizers: main CASE writes y to CASE.y.
//
// A case is 64-bit integers, then the rows of x one after the other, then the table of offsets:
//   blocks, threads, shared_bytes, rows, row_bytes, row_stride_bytes, x_offset, y_offset,
//   table_bytes, scalars (count), scalars ...
// Kernel parameters are x, y, elements, row_stride, the table's address if there is one, scalars.
// x and y have exactly the bytes they need, so that the first byte behind them is seen.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runner.h"

static char* memory(std::size_t bytes, std::size_t offset) {
    return (char*)std::malloc(offset + bytes) + offset;
}

int main(int, char** argv) {
    std::FILE* file = std::fopen(argv[1], "rb");
    std::int64_t h[10];
    if (std::fread(h, sizeof h, 1, file) != 1) return 2;
    const std::int64_t blocks = h[0], threads = h[1], shared_bytes = h[2], rows = h[3],
                       row_bytes = h[4], stride = h[5], table_bytes = h[8];
    std::vector<std::int64_t> scalars(h[9]);
    if (std::fread(scalars.data(), 8, scalars.size(), file) != scalars.size()) return 2;

    const std::size_t extent = (rows - 1) * stride + row_bytes;
    char* const x = memory(extent, h[6]);
    char* const y = memory(rows * row_bytes, h[7]);
    for (std::int64_t r = 0; r < rows; ++r) {
        if (std::fread(x + r * stride, row_bytes, 1, file) != 1) return 2;
    }
    char* const table = table_bytes ? memory(table_bytes, 0) : nullptr;
    if (table && std::fread(table, table_bytes, 1, file) != 1) return 2;
    std::fclose(file);
    std::memset(y, 0xA5, rows * row_bytes);

    // elements and row_stride are the first two scalars.
    std::vector<const void*> values{x, y, (void*)scalars[0], (void*)scalars[1]};
    if (table) values.push_back(table);
    for (std::size_t k = 2; k < scalars.size(); ++k) values.push_back((void*)scalars[k]);
    std::vector<void*> parameters;
    for (const void*& value : values) parameters.push_back(&value);
    if (const int waiting = launch(0, blocks, threads, shared_bytes, parameters.data(), 0)) {
        std::fprintf(stderr, "divergent barrier: %d of %d threads wait\n", waiting, (int)threads);
        return 3;
    }
    file = std::fopen((std::string(argv[1]) + ".y").c_str(), "wb");
    std::fwrite(y, rows * row_bytes, 1, file);
    std::fclose(file);
}
