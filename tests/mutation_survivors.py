"""Mutants that nothing can see, and why: data of tests/mutation.py."""

RAW, NUMBA, LAUNCH = "raw_kernels/tile.cu", "perm_gpu/numba_kernels/tile.py", "perm_gpu/launch.py"
PLACEHOLDERS = "0 -> 1", "0 -> 1 (2)", "0 -> 1 (3)", "0 -> 1 (4)"
UNROLLS = "an unroll count, which changes the speed and not what is done"
GUARDED = "more turns of a loop whose body looks at the index: they do nothing"
IS_FULL = "both sides of the choice are the same number there"
TRANSFORMS = "a mode or a level of forward_ad, of which only tests/cpu/test_transforms.py knows"
EXPLAINED = {
    (file, line, change): why
    for why, file, line, *changes in (
        (
            *(UNROLLS, RAW),
            "constexpr int load_unroll = "
            "PERM_LOADS <= (PERM_LOAD_BYTES > 4 ? 7 : 6) ? PERM_LOADS : 4;",
            *("<= -> <", "> -> >=", "4 -> 5", "7 -> 8", "6 -> 7", "4 -> 5 (2)"),
        ),
        (
            *(UNROLLS, RAW),
            "constexpr int store_unroll = PERM_STORES <= 7 ? PERM_STORES : 4;",
            *("<= -> <", "7 -> 8", "4 -> 5"),
        ),
        (
            *(IS_FULL, RAW),
            "struct __align__((offsets_bytes < 16 ? offsets_bytes : 16)) Offsets {",
            *("< -> <=", "16 -> 17"),
        ),
        (
            *(IS_FULL, RAW),
            "const int here = (int)(left < tile_elements ? left : tile_elements);",
            "< -> <=",
        ),
        (GUARDED, RAW, "for (int k = 0; k < PERM_LOADS; ++k) {", "< -> <="),
        (GUARDED, RAW, "for (int k = 0; k < PERM_STORES; ++k) {", "< -> <="),
        (
            "word 0 is chosen a second time",
            *("perm_gpu/numba_kernels/baked.py", "for k in range(1, words):", "1 -> 0"),
        ),
        ("loads in flight, which change the speed only", NUMBA, "BATCH = 4", "4 -> 5"),
        (
            "the width of y's words, at most 8 elements and a power of two, is less than 9 anyway",
            NUMBA,
            "store_elements = min(store_bytes // element_bytes, 8 // element_bytes, "
            "8 // offset_bytes)",
            *("8 -> 9", "8 -> 9 (2)"),
        ),
        (
            *(GUARDED, NUMBA),
            "batches = -(-loads * (load_bytes // load_width) // BATCH)",
            *("// -> *", "// -> * (2)"),
        ),
        (
            *(GUARDED, NUMBA),
            "words_stored = stores * (store_bytes // (store_elements * element_bytes))",
            "// -> *",
        ),
        ("a bound on memory of no exact size", LAUNCH, "SIZES_KEPT = 64", "64 -> 65"),
        (
            *("a bound on memory of no exact size", LAUNCH),
            "if len(sizes) >= SIZES_KEPT:",
            ">= -> >",
        ),
        (
            "overwritten before each launch",
            *(LAUNCH, "arguments = 0, 0, 0, 0, *self._constants", *PLACEHOLDERS),
        ),
        (
            "asks which device is current although there is one only, which costs time",
            LAUNCH,
            "several = calls.devices > 1  # else the only one is the current one",
            *("> -> >=", "1 -> 0"),
        ),
        (
            *(TRANSFORMS, LAUNCH),
            "if not check(x) or forward_ad._current_level >= 0 or modes():",
            *(">= -> >", "0 -> 1", "or -> and (2)"),
        ),
        (
            "a plan is right for any number of elements, so the other way gives the same result",
            *(LAUNCH, "if not low <= elements < high:", "<= -> <", "< -> <="),
        ),
        (
            "rows of one element with a stride of their own are copied first, which costs time",
            *(LAUNCH, "if features > 1 and x.stride(-1) != 1:", "> -> >=", "1 -> 0"),
        ),
    )
    for change in changes
}
"""(file, line, change) to why nothing here can see the mutant."""
