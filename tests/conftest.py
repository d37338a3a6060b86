"""Where GPU tests skip themselves, and where those that passed are counted."""

import os
from collections import Counter

import pytest
import torch
from hypothesis import settings

# A busy machine is no failure.
settings.register_profile("perm_gpu", deadline=None)
settings.load_profile("perm_gpu")

REQUIRE_GPU = os.environ.get("PERM_GPU_REQUIRE_GPU") == "1"
AXES = pytest.StashKey[dict[str, list[str]]]()


def pytest_sessionstart(session):
    if REQUIRE_GPU and not torch.cuda.is_available():
        pytest.exit(
            "PERM_GPU_REQUIRE_GPU=1 asks for the GPU tests, but torch.cuda.is_available() is False "
            f"(torch {torch.__version__}, built for CUDA {torch.version.cuda}); install a torch "
            "that the driver of this machine can run, or unset the variable to skip these tests",
            returncode=1,
        )


def pytest_collection_modifyitems(config, items):
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    config.stash[AXES] = {item.nodeid: axes(item) for item in gpu_items}
    if not torch.cuda.is_available():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def axes(item):
    """The axes that a test covers, as its `axis` marks name them."""
    return [mark.args[0] for mark in item.iter_markers("axis")] or ["no axis"]


def pytest_terminal_summary(terminalreporter, config):
    passed = count(terminalreporter, config, "passed")
    ran = passed + count(terminalreporter, config, "failed")
    if ran:
        terminalreporter.section("GPU tests that passed, by axis")
        for axis in sorted(ran):
            terminalreporter.write_line(f"{axis:<20} {passed[axis]:>6} of {ran[axis]}")


def count(terminalreporter, config, outcome):
    """GPU tests with `outcome`, by axis; a test on two axes counts on both."""
    axes_of = config.stash.get(AXES, {})
    reports = terminalreporter.stats.get(outcome, [])
    return Counter(axis for report in reports for axis in axes_of.get(report.nodeid, []))
