"""What perm_gpu raises: `PermGpuError` and its kinds, each also the builtin that callers expect."""


class PermGpuError(Exception):
    """Any error that perm_gpu raises on purpose."""


class InvalidPermutationError(PermGpuError, ValueError):
    """The integers are no permutation: wrong rank, a duplicate, or a length that does not fit."""


class PermutationTypeError(PermGpuError, TypeError):
    """The permutation is not made of integers; booleans and integral floats are none."""


class PermutationRangeError(PermGpuError, IndexError):
    """An entry of the permutation is negative or not below its length."""


class InputError(PermGpuError, ValueError):
    """An argument has the right type, but a value, shape or layout that cannot be used."""


class InputTypeError(PermGpuError, TypeError):
    """An argument has a type or dtype that cannot be used."""


class UnsupportedProblemError(PermGpuError, ValueError):
    """The chosen variant cannot run this problem."""


class ToolchainError(PermGpuError, RuntimeError):
    """A toolchain is missing, or it failed to build or to load a kernel."""


class CaptureError(PermGpuError, RuntimeError):
    """A CUDA graph capture met work that must be done before it."""
