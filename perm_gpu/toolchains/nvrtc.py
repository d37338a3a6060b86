"""CUDA C++ built in the process by NVRTC, through CuPy's bindings."""

from __future__ import annotations

from perm_gpu.errors import ToolchainError
from perm_gpu.problem import Launch
from perm_gpu.toolchains import Cubin
from perm_gpu.toolchains.cuda import STANDARD, Cuda, macros, source


class Nvrtc(Cuda):
    """NVRTC: no compiler on the machine, about 0.1 s a kernel."""

    name = "nvrtc"

    def compile(self, variant: str, launch: Launch, arch: int) -> Cubin:
        """See `Toolchain.compile`."""
        try:
            from cupy.cuda import nvrtc

            program = nvrtc.createProgram(source(variant), f"{variant}.cu", [], [])
        except Exception as error:  # CuPy and cuda-pathfinder raise kinds of their own
            raise ToolchainError(
                f"NVRTC cannot be loaded: {error}; pip install 'perm-gpu[cuda12]' or "
                "'perm-gpu[cuda13]' brings it"
            ) from error
        options = (
            *macros(launch),
            f"-arch=sm_{supported(nvrtc.getSupportedArchs(), arch)}",
            STANDARD,
            "--ptxas-options=-v",
        )
        try:
            nvrtc.compileProgram(program, options)
            # CuPy leaves out the last byte of the image, which is a zero.
            code = nvrtc.getCUBIN(program) + b"\0"
            return Cubin(code, variant, None, nvrtc.getProgramLog(program))
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            raise ToolchainError(
                f"NVRTC {nvrtc.getVersion()} refused {variant}.cu with {options}: {error}\n{log}"
            ) from error
        finally:
            nvrtc.destroyProgram(program)


def supported(known: list[int], arch: int) -> int:
    """The newest architecture that the compiler knows and whose code runs on `arch`.

    Machine code runs on later minor versions of the same major version.
    """
    fit = [candidate for candidate in known if candidate <= arch and candidate // 10 == arch // 10]
    if not fit:
        raise ToolchainError(
            f"this NVRTC builds for sm_{min(known)} .. sm_{max(known)} and for nothing that runs "
            f"on sm_{arch}: install the other of perm-gpu[cuda12] and perm-gpu[cuda13]"
        )
    return max(fit)
