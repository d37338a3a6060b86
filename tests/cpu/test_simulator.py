"""The Numba kernels in Numba's simulator, which needs a process of its own."""

import importlib.util
import sys
from pathlib import Path

import pytest

from perm_gpu.registry import VARIANTS
from processes import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_numba_kernels_move_the_right_bits(variant, tmp_path):
    script = ROOT / "tests" / "simulate.py"
    environment = {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    printed = run(sys.executable, script, variant, cwd=tmp_path, **environment)
    assert "problems are right, and a planted fault was seen" in printed
