"""What the numbers of a run are from: machine, device, versions, toolchains."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from perm_gpu import __version__, toolchains

PACKAGES = ("cupy-cuda12x", "cupy-cuda13x", "numba", "numba-cuda", "triton")
ABSENT = "n/a"


def specs() -> dict[str, dict[str, Any]]:
    """Names and values by topic; what cannot be known here is "n/a"."""
    return {
        "machine": machine(),
        "device": device(),
        "versions": versions(),
        "toolchains": {
            name: toolchain.missing() or "available"
            for name, toolchain in toolchains.toolchains().items()
        },
    }


def machine() -> dict[str, Any]:
    """The host."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }


def processor() -> str:
    """The processor's name, as the kernel gives it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or ABSENT
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def device() -> dict[str, Any]:
    """The current CUDA device; empty where there is none."""
    if not torch.cuda.is_available():
        return {}
    index = torch.cuda.current_device()
    facts = torch.cuda.get_device_properties(index)
    return {
        "name": facts.name,
        "compute capability": f"{facts.major}.{facts.minor}",
        "multiprocessors": facts.multi_processor_count,
        "memory, bytes": facts.total_memory,
        "L2, bytes": getattr(facts, "L2_cache_size", ABSENT),
        "shared memory of a block, bytes": getattr(facts, "shared_memory_per_block_optin", ABSENT),
        **driver_facts(index),
    }


def driver_facts(index: int) -> dict[str, Any]:
    """What the management library knows, if nvidia-ml-py is installed."""
    try:
        import pynvml

        pynvml.nvmlInit()
        # NVML counts all devices, torch the visible ones: the UUID is what both know.
        uuid = f"GPU-{torch.cuda.get_device_properties(index).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return {
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "clock, MHz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory clock, MHz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "throttle reasons": hex(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        }
    except Exception:  # not installed, no permission, or a device that the library does not know
        return {"driver": ABSENT, "clock, MHz": ABSENT, "throttle reasons": ABSENT}


def versions() -> dict[str, str]:
    """Versions of what takes part."""
    known = {
        "perm_gpu": __version__,
        "torch": torch.__version__,
        "CUDA of torch": torch.version.cuda or ABSENT,
        "numpy": np.__version__,
    }
    for package in PACKAGES:
        try:
            known[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return known | {"NVRTC": nvrtc(), "nvcc": nvcc()}


def nvrtc() -> str:
    """Version of the NVRTC that CuPy finds."""
    try:
        from cupy.cuda import nvrtc as bindings

        return ".".join(map(str, bindings.getVersion()))
    except Exception:  # CuPy or NVRTC is not installed; both raise kinds of their own
        return ABSENT


def nvcc() -> str:
    """Version of the nvcc on PATH."""
    path = shutil.which("nvcc")
    if path is None:
        return ABSENT
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release ([\d.]+)", text)
    return found[1] if found else ABSENT
