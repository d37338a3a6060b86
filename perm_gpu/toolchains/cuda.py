"""What NVRTC and nvcc share: the .cu file and its macros. Both come with CuPy's bindings."""

from __future__ import annotations

import importlib.util

from perm_gpu.problem import Launch
from perm_gpu.toolchains import Toolchain, raw_kernels_folder

UNSIGNED = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned int",
    8: "unsigned long long",
    16: "uint4",
}
STANDARD = "-std=c++17"


class Cuda(Toolchain):
    """A toolchain that builds raw_kernels/<variant>.cu."""

    def missing(self) -> str | None:
        """CuPy, which holds the bindings to the compiler and to the driver."""
        if importlib.util.find_spec("cupy") is None:
            return "CuPy is not installed: pip install 'perm-gpu[cuda12]' or 'perm-gpu[cuda13]'"
        return None

    def rejects(self, variant: str) -> str | None:
        """No such file."""
        file = f"{variant}.cu"
        return (
            None if (raw_kernels_folder() / file).is_file() else f"raw_kernels/{file} is not there"
        )


def source(variant: str) -> str:
    """The text of a kernel, which includes no other file."""
    return (raw_kernels_folder() / f"{variant}.cu").read_text(encoding="utf-8")


def macros(launch: Launch) -> tuple[str, ...]:
    """One -DPERM_<NAME>=value a field, and for PERM_<NAME>_BYTES the unsigned type PERM_<NAME>.

    The prefix is needed: names such as T or W break the compilers' own headers.
    """
    options = []
    for name, value in launch.specialisation:
        options.append(f"-DPERM_{name.upper()}={value}")
        if name.endswith("_bytes"):
            options.append(f"-DPERM_{name.removesuffix('_bytes').upper()}={UNSIGNED[value]}")
    return tuple(options)
