"""The fake device, for every test that launches without a GPU."""

import pytest

from fake_driver import PRIVATE_NAMES, FakeDevice


@pytest.fixture
def device(monkeypatch):
    """A fake device behind the launch seam."""
    return FakeDevice(monkeypatch).install()


@pytest.fixture(params=[None, *PRIVATE_NAMES], ids=lambda name: name and name[1])
def any_torch(monkeypatch, request):
    """A fake device on a torch that lacks one private name, or none."""
    return FakeDevice(monkeypatch).install_platform(request.param)
