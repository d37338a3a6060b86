"""Toolchains by name, skipped only where one is not installed, with its own reason."""

import pytest

from perm_gpu import FeaturePermutation, UnsupportedProblemError, toolchains


@pytest.fixture(params=toolchains.NAMES)
def toolchain(request):
    """The name of each toolchain."""
    require(request.param)
    return request.param


def require(name):
    if reason := toolchains.toolchains()[name].missing():
        pytest.skip(reason)


@pytest.fixture
def made():
    """Makes a module, or skips with the reason of the variant that rejects the problem."""

    def make(perm, x, toolchain, variant):
        require(toolchain)
        module = FeaturePermutation(perm, toolchain=toolchain, variant=variant)
        if x.numel():
            try:
                module(x)
            except UnsupportedProblemError as error:
                pytest.skip(str(error))
        return module

    return make
