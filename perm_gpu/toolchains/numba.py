"""Numba kernels: NVVM writes PTX, nvJitLink makes a cubin of it."""

from __future__ import annotations

import importlib
import importlib.util
import re

import numpy as np

from perm_gpu.errors import ToolchainError
from perm_gpu.problem import Launch
from perm_gpu.toolchains import Cubin, Toolchain

INSTALL = "pip install 'perm-gpu[cuda12]' or 'perm-gpu[cuda13]'"


class Numba(Toolchain):
    """numba-cuda; CuPy loads and launches what it builds, as it does for the other toolchains."""

    name = "numba"
    widest_element = 8  # Numba has no wider integer

    def missing(self) -> str | None:
        """numba-cuda, or CuPy."""
        for module, package in (("numba_cuda", "numba-cuda"), ("cupy", "CuPy")):
            if importlib.util.find_spec(module) is None:
                return f"{package} is not installed: {INSTALL}"
        return None

    def rejects(self, variant: str) -> str | None:
        """No such file."""
        if importlib.util.find_spec(f"perm_gpu.numba_kernels.{variant}") is None:
            return f"perm_gpu/numba_kernels/{variant}.py is not there"
        return None

    def compile(self, variant: str, launch: Launch, arch: int) -> Cubin:
        """See `Toolchain.compile`."""
        try:
            from cuda.core import Linker, LinkerOptions, ObjectCode
            from numba import cuda

            build = importlib.import_module(f"perm_gpu.numba_kernels.{variant}").build
            function, signature, slots = build(**dict(launch.specialisation))
            ptx, _ = cuda.compile(
                function,
                signature,
                device=False,
                abi="numba",
                cc=divmod(arch, 10),
                launch_bounds=(launch.threads, launch.blocks_per_multiprocessor),
            )
            # Never PTX to the driver: an NVVM newer than the driver writes what that refuses.
            options = LinkerOptions(arch=f"sm_{arch}", ptxas_options=["-v"])
            linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
            code = bytes(linker.link("cubin").code)
        except Exception as error:  # Numba, NVVM and nvJitLink raise kinds of their own
            raise ToolchainError(
                f"Numba could not build {variant} for sm_{arch} with {launch.specialisation}: "
                f"{error!r}; numba-cuda needs numpy < 2.5 ({np.__version__} is installed) and the "
                f"CUDA wheels of its extras: {INSTALL}"
            ) from error
        entries = re.findall(r"\.visible \.entry (\S+)\(", ptx)
        if len(entries) != 1:
            raise ToolchainError(f"Numba built {len(entries)} kernels of {variant}, 1 is expected")
        return Cubin(code, entries[0], slots, linker.get_info_log())
