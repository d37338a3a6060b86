"""Arrays of CuPy and Numba, the DLPack check, and permutations that live on the device."""

import pytest
import torch

from cases import shuffled
from gpu.moving import assert_moved, never_waits, random_bits
from perm_gpu import (
    FeaturePermutation,
    InputError,
    InvalidPermutationError,
    PermutationRangeError,
    interop,
    permute_features,
)

pytestmark = [pytest.mark.gpu, pytest.mark.axis("interop")]

PERM = shuffled(36)


def test_cupy_array_comes_back_as_one():
    cupy = pytest.importorskip("cupy")
    array = cupy.random.default_rng(0).random((10, 36), dtype=cupy.float32)
    tensor, back = interop.from_foreign(array)
    assert tensor.data_ptr() == array.data.ptr
    assert back(tensor).data.ptr == array.data.ptr

    y = FeaturePermutation(PERM)(array)

    assert type(y) is cupy.ndarray
    assert bool((y == array[:, cupy.asarray(PERM)]).all())


def test_numba_array_comes_back_as_one():
    cuda = pytest.importorskip("numba.cuda")
    x = random_bits(10, 36, dtype=torch.float32)
    array = cuda.as_cuda_array(x)
    tensor, back = interop.from_foreign(array)
    assert tensor.data_ptr() == x.data_ptr()
    assert back(tensor).device_ctypes_pointer.value == x.data_ptr()

    y = FeaturePermutation(PERM)(array)

    assert cuda.is_cuda_array(y)
    assert_moved(x, torch.as_tensor(y, device="cuda"), PERM)


def test_dlpack_view_is_compared_once_for_each_width(monkeypatch):
    compared = []
    real = interop.require_shared
    monkeypatch.setattr(
        interop, "require_shared", lambda x: (compared.append(x.element_size()), real(x))
    )
    module = FeaturePermutation(PERM)
    for rows in (1, 10, 5000):
        for dtype in (torch.uint8, torch.bfloat16, torch.float32, torch.float64):
            module(random_bits(rows, 36, dtype=dtype))
    assert sorted(compared) == [1, 2, 4, 8]


def test_memory_that_is_not_shared_is_refused(monkeypatch):
    cupy = pytest.importorskip("cupy")
    from_dlpack = cupy.from_dlpack
    monkeypatch.setattr(cupy, "from_dlpack", lambda x: from_dlpack(x).copy())
    with pytest.raises(InputError, match="pointer"):
        FeaturePermutation(PERM)(random_bits(10, 36, dtype=torch.float32))


def test_permutation_on_the_device_is_read_once():
    perm = torch.from_numpy(PERM).to("cuda")
    x = random_bits(10, 36, dtype=torch.float32)
    permute_features(x, perm), permute_features(x, perm)
    with never_waits():
        y = permute_features(x, perm)
    assert_moved(x, y, PERM)

    perm.copy_(torch.arange(36))  # another version of the same tensor
    assert_moved(x, permute_features(x, perm), range(36))


@pytest.mark.parametrize(
    ("perm", "error"),
    [
        ([0, 36, *range(2, 36)], PermutationRangeError),
        ([0, 0, *range(2, 36)], InvalidPermutationError),
    ],
    ids=["out of range", "duplicate"],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_bad_permutation_leaves_the_context_alive(perm, error, device):
    x = random_bits(10, 36, dtype=torch.float32)
    with pytest.raises(error):
        permute_features(x, torch.tensor(perm, device=device))
    torch.cuda.synchronize()
    assert_moved(x, permute_features(x, PERM), PERM)


def test_gradient_is_the_inverse_to_the_bit():
    module = FeaturePermutation(shuffled(4096))
    for dtype in (torch.bfloat16, torch.float32, torch.complex64):
        x = torch.randn(64, 4096, dtype=dtype, device="cuda", requires_grad=True)
        weight = torch.randn_like(x)
        module(x).backward(weight)
        assert_moved(weight, x.grad, module.inverse.permutation.array)


def test_conjugate_and_negative_views():
    module = FeaturePermutation(PERM)
    z = torch.randn(10, 36, dtype=torch.complex64, device="cuda")
    index = torch.from_numpy(PERM).to("cuda")
    assert torch.equal(module(z.conj()), z.conj()[:, index])
    assert torch.equal(module(z.conj().imag), z.conj().imag[:, index])


def test_transforms_get_the_right_answer():
    module = FeaturePermutation(PERM)
    x = torch.randn(5, 10, 36, device="cuda")
    module(x[0])
    index = torch.from_numpy(PERM).to("cuda")
    assert torch.equal(torch.func.vmap(module)(x), x[..., index])
    _, tangent = torch.func.jvp(module, (x[0],), (x[1],))
    assert torch.equal(tangent, x[1][:, index])
