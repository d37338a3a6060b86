"""Apply a fixed permutation along the feature axis, y[..., j] = x[..., perm[j]], on NVIDIA GPUs."""

from perm_gpu.errors import (
    CaptureError,
    InputError,
    InputTypeError,
    InvalidPermutationError,
    PermGpuError,
    PermutationRangeError,
    PermutationTypeError,
    ToolchainError,
    UnsupportedProblemError,
)
from perm_gpu.model import PERM, Model, ModelNew, get_init_inputs, get_inputs
from perm_gpu.module import FeaturePermutation, permute_features
from perm_gpu.permutation import Permutation

__version__ = "0.1.0"

__all__ = [
    "PERM",
    "CaptureError",
    "FeaturePermutation",
    "InputError",
    "InputTypeError",
    "InvalidPermutationError",
    "Model",
    "ModelNew",
    "PermGpuError",
    "Permutation",
    "PermutationRangeError",
    "PermutationTypeError",
    "ToolchainError",
    "UnsupportedProblemError",
    "get_init_inputs",
    "get_inputs",
    "permute_features",
]
