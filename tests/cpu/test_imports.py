"""What `import perm_gpu` loads, and which CUDA toolchains lie beside it."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch

from processes import run

ROOT = Path(__file__).resolve().parents[2]


def test_import_touches_neither_toolchains_nor_devices(tmp_path):
    script = (
        "import sys, perm_gpu, torch; "
        "print(*sorted({name.split('.')[0] for name in sys.modules})); "
        "print(torch.cuda.is_initialized(), 'torch._dynamo' in sys.modules, sep='\\n')"
    )
    printed = run(sys.executable, "-c", script, cwd=tmp_path, PYTHONPATH=str(ROOT))
    modules, initialized, dynamo = printed.splitlines()
    assert not {"cupy", "cupy_backends", "numba", "numba_cuda"} & set(modules.split())
    assert dynamo == "False"  # which would double the time that the import takes
    assert initialized == "False"


@pytest.mark.parametrize(
    ("platform", "missing"),
    [
        ("darwin", ["cuda", "cupy", "numba"]),
        ("win32", ["cuda", "cupy", "fcntl", "grp", "numba", "pwd", "resource", "termios"]),
    ],
)
def test_import_and_use_where_there_is_no_cuda(tmp_path, platform, missing):
    script = (
        "import sys, torch; sys.platform, *missing = sys.argv[1:]; "
        "sys.modules.update(dict.fromkeys(missing)); "
        "import perm_gpu; x = torch.rand(10, 36); y = perm_gpu.ModelNew()(x); "
        "perm = torch.randperm(36, generator=torch.Generator().manual_seed(10)); "
        "print(torch.equal(y, x[:, perm]))"
    )
    command = (sys.executable, "-c", script, platform, *missing)
    assert run(*command, cwd=tmp_path, PYTHONPATH=str(ROOT)) == "True\n"


def nvrtc_major() -> int:
    import cupy  # noqa: F401  (cupy.cuda is not to be imported on its own)
    from cupy.cuda import nvrtc

    return nvrtc.getVersion()[0]


def nvvm_major() -> int:
    """The CUDA release that NVVM writes at the top of its PTX; NVVM's own number is another one."""
    from numba import cuda, types

    def kernel():
        pass

    ptx, _ = cuda.compile(kernel, types.void(), cc=(9, 0), device=False, abi="numba")
    release = re.search(r"Cuda compilation tools, release (\d+)\.", ptx)
    assert release, ptx
    return int(release[1])


def test_cuda_toolchains_have_one_major():
    majors = {}
    if torch.version.cuda:
        majors["torch"] = int(torch.version.cuda.split(".")[0])
    if importlib.util.find_spec("cupy"):
        majors["NVRTC"] = nvrtc_major()
    if importlib.util.find_spec("numba_cuda"):
        majors["NVVM"] = nvvm_major()
    if len(majors) < 2:
        pytest.skip(f"fewer than two CUDA toolchains are installed: {[*majors]}")
    assert len(set(majors.values())) == 1, majors
