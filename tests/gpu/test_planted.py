"""Kernels with one planted fault each: the comparison that all GPU tests share must reject them."""

import shutil

import pytest
import torch

from cases import shuffled
from gpu.moving import assert_moved, random_bits
from perm_gpu import FeaturePermutation, planner, toolchains
from perm_gpu.toolchains import KernelCache, cuda

pytestmark = [pytest.mark.gpu, pytest.mark.axis("planted faults")]

FAULTS = {
    "gather": ("(long long)perm[j]", "(long long)perm[(j + 1) % features]"),
    "baked": ("x[i - j + source]", "x[i - j + (source + 1) % PERM_FEATURES]"),
    "tile": ("staged[from.offset[e]]", "staged[from.offset[e ^ 1]]"),
}


@pytest.mark.parametrize("variant", FAULTS)
def test_a_wrong_kernel_is_rejected(variant, tmp_path, monkeypatch):
    shutil.copytree(toolchains.raw_kernels_folder(), tmp_path / "raw_kernels")
    file = tmp_path / "raw_kernels" / f"{variant}.cu"
    right, wrong = FAULTS[variant]
    text = file.read_text(encoding="utf-8")
    assert text.count(right) == 1
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    perm, x = shuffled(64), random_bits(100, 64, dtype=torch.float32)

    monkeypatch.setattr(planner, "KERNELS", KernelCache())
    assert_moved(x, FeaturePermutation(perm, toolchain="nvrtc", variant=variant)(x), perm)

    monkeypatch.setattr(planner, "KERNELS", KernelCache())
    monkeypatch.setattr(cuda, "raw_kernels_folder", lambda: tmp_path / "raw_kernels")
    y = FeaturePermutation(perm, toolchain="nvrtc", variant=variant)(x)
    with pytest.raises(AssertionError):
        assert_moved(x, y, perm)
