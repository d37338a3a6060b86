"""The kernels of raw_kernels/ compiled by g++ and run on the CPU: see tests/host/."""

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np

from fake_driver import FakeDevice
from perm_gpu import Permutation
from perm_gpu.problem import Launch
from perm_gpu.registry import VARIANTS
from perm_gpu.toolchains import cuda

HOST = Path(__file__).resolve().parent / "host"
FLAGS = (
    *("g++", "-std=c++20", "-O1", "-g", "-pthread", "-fPIC", "-fno-strict-aliasing"),
    *("-Wall", "-Werror", "-Wno-unknown-pragmas"),
)
SANITIZERS = {
    "none": (),
    "address and undefined": (
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
    ),
    "thread": ("-fsanitize=thread",),
}
LIMIT_S = 60
"""Of one process: a barrier that not all threads reach waits for ever."""


@functools.cache
def folder():
    """Where everything is built, until this process ends."""
    kept = tempfile.TemporaryDirectory(prefix="perm_gpu_host_", ignore_cleanup_errors=True)
    folder.kept = kept
    return Path(kept.name)


def compiled(*command):
    """The output of a compiler command, made once; its last word is the file without its name."""
    *words, suffix = map(str, command)
    name = hashlib.blake2b("\0".join(words).encode(), digest_size=12).hexdigest()
    output = folder() / f"{name}{suffix}"
    if not output.exists():
        done = subprocess.run([*words, "-o", output], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stderr}"
    return output


def build(variant, launch, runner="fibers", sanitizer="none", text=None):
    """A shared library, or a program if there is a sanitizer, with one kernel.

    Args:
        variant: Its name.
        launch: Its geometry and specialisation.
        runner: "fibers" or "threads".
        sanitizer: A key of `SANITIZERS`.
        text: The kernel's source, if it is not that of raw_kernels/.
    """
    source = cuda.source(variant) if text is None else text
    digest = hashlib.blake2b(source.encode(), digest_size=12).hexdigest()
    file = folder() / f"{variant}_{digest}.cu"
    file.write_text(source, encoding="utf-8")
    flags = (*FLAGS, *SANITIZERS[sanitizer])
    names = (f"-DPERM_KERNEL={variant}", f'-DPERM_SOURCE="{file}"')
    kernel = compiled(*flags, *cuda.macros(launch), *names, "-c", HOST / "kernel.cpp", ".o")
    parts = [runner, "shared", *(["main"] if sanitizer != "none" else [])]
    objects = [compiled(*flags, "-c", HOST / f"{part}.cpp", ".o") for part in parts]
    if sanitizer != "none":
        return compiled(*flags, kernel, *objects, ".exe")
    return compiled(*flags, "-shared", kernel, *objects, ".so")


class HostDevice(FakeDevice):
    """A fake device whose kernels are those of raw_kernels/; nvrtc is its toolchain."""

    reverse = False
    """Whether the threads of a block run in reverse order."""
    text = None
    """Source in place of the kernel's own."""
    lock = threading.Lock()

    def execute(self, launched, values, parameters):
        s = launched.code.specialisation
        launch = Launch(launched.threads, 1, tuple(s.items()))
        library = ctypes.CDLL(str(build(launched.code.variant, launch, text=self.text)))
        with self.lock:  # the library runs one block at a time
            waiting = library.launch(
                0,
                launched.grid,
                launched.threads,
                ctypes.c_size_t(launched.shared),
                ctypes.c_void_p(parameters),
                int(self.reverse),
            )
        if waiting:
            raise RuntimeError(f"divergent barrier: {waiting} of {launched.threads} threads wait")


def run_alone(program, variant, problem, launch, path, offsets=(0, 0)):
    """(return code, what was printed, whether y is right) of one launch in its own process.

    Args:
        program: What `build` made with a sanitizer.
        variant: Name of the variant.
        problem: The problem.
        launch: Its launch.
        path: Where the case is written.
        offsets: Bytes that x and y are off an address that 16 divides.
    """
    generator = np.random.default_rng(problem.features)
    permutation = Permutation(generator.permutation(problem.features))
    tables = VARIANTS[variant].tables(permutation, launch)
    table = b"" if tables.offsets is None else tables.offsets.tobytes()
    table += bytes(-len(table) % 16)
    width = problem.element_bytes
    rows = generator.integers(0, 256, (problem.rows, problem.features, width), np.uint8)
    if problem.row_stride == 0:
        rows[:] = rows[0]
    scalars = [problem.elements, problem.row_stride, *tables.scalars]
    header = [
        *(launch.blocks(problem.elements), launch.threads, launch.shared_bytes),
        *(problem.rows, problem.row_bytes, problem.row_stride * width),
        *(*offsets, len(table), len(scalars), *scalars),
    ]
    path.write_bytes(np.array(header, np.uint64).tobytes() + rows.tobytes() + table)
    try:
        done = subprocess.run(
            [program, path],
            env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, "it never ended", False
    y = path.with_name(path.name + ".y")
    right = y.exists() and y.read_bytes() == rows[:, permutation.array].tobytes()
    return done.returncode, done.stderr, right
