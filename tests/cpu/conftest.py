"""The fake device, for every test that launches without a GPU."""

import pytest
import torch

from bits import random_bits
from cases import shuffled
from fake_driver import PRIVATE_NAMES, FakeDevice
from perm_gpu import FeaturePermutation

# Threads of torch that wait for each other are minutes slower on a machine that is busy.
torch.set_num_threads(1)


@pytest.fixture
def device(monkeypatch):
    """A fake device behind the launch seam."""
    return FakeDevice(monkeypatch).install()


@pytest.fixture(params=["cpu", "fake device"])
def where(request):
    """None for CPU tensors that torch serves, and a device that launches on them."""
    return request.getfixturevalue("device") if request.param == "fake device" else None


@pytest.fixture
def warm(where):
    """`FeaturePermutation(shuffled(36))` with a fast path, where there is a device, and its x."""
    permute, x = FeaturePermutation(shuffled(36)), random_bits(5, 36)
    permute(x), permute(x)
    return permute, x


@pytest.fixture(params=[None, *PRIVATE_NAMES], ids=lambda name: name and name[1])
def any_torch(monkeypatch, request):
    """A fake device on a torch that lacks one private name, or none."""
    return FakeDevice(monkeypatch).install_platform(request.param)
