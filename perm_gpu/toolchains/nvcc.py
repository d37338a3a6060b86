"""CUDA C++ built by the nvcc of the machine, the way CuPy's nvcc backend calls it."""

from __future__ import annotations

import io

from perm_gpu.errors import ToolchainError
from perm_gpu.problem import Launch
from perm_gpu.toolchains import Cubin
from perm_gpu.toolchains.cuda import STANDARD, Cuda, macros, source


class Nvcc(Cuda):
    """nvcc: needs the CUDA toolkit and a host compiler, about 1 s a kernel."""

    name = "nvcc"

    def missing(self) -> str | None:
        """CuPy, or nvcc itself."""
        if reason := super().missing():
            return reason
        from cupy.cuda import get_nvcc_path

        if get_nvcc_path() is None:
            return "nvcc is not on PATH: install the CUDA toolkit, or pip install nvidia-cuda-nvcc"
        return None

    def compile(self, variant: str, launch: Launch, arch: int) -> Cubin:
        """See `Toolchain.compile`."""
        from cupy.cuda import compiler

        log = io.StringIO()
        options = (*macros(launch), STANDARD, "-Xptxas", "-v")
        try:
            code = compiler.compile_using_nvcc(
                source(variant), options, arch=str(arch), filename=f"{variant}.cu", log_stream=log
            )
        except Exception as error:  # CompileException, or what starting the process raised
            raise ToolchainError(
                f"nvcc refused {variant}.cu for sm_{arch} with {options}: {error}\n{log.getvalue()}"
            ) from error
        return Cubin(code, variant, None, log.getvalue())
