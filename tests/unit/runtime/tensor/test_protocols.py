"""Tensors share memory with numpy, torch, Paddle and jax: same address, and the known hazards."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import RuntimeFault, UnsupportedError, UsageError
from pirkit.runtime import dtype as dt
from pirkit.runtime.tensor.dense import DenseTensor

KINDS = [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8, np.bool_, np.complex64]


def address(array: Any) -> int:
    return int(np.asarray(array).__array_interface__["data"][0])


@pytest.mark.parametrize("kind", [*KINDS, ml_dtypes.bfloat16], ids=lambda k: np.dtype(k).name)
def test_numpy_shares_both_ways(kind: Any) -> None:
    array = np.ones((2, 3), kind)
    tensor = pirkit.from_numpy(array)
    assert tensor.address == array.ctypes.data
    back = np.asarray(tensor)
    assert back.ctypes.data == array.ctypes.data
    assert back.dtype == array.dtype
    with pytest.raises(ValueError, match="copy"):
        np.array(tensor, dtype=np.float64 if kind is not np.float64 else np.float32, copy=False)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: np.dtype(k).name)
def test_dlpack_with_numpy_shares_memory(kind: Any) -> None:
    tensor = pirkit.tensor(np.ones((2, 3), kind))
    if kind is not np.bool_:
        assert np.from_dlpack(tensor).ctypes.data == tensor.address
    again = pirkit.from_dlpack(tensor)
    assert again.address == tensor.address
    assert again.dtype is tensor.dtype


def test_dlpack_carries_bfloat16_and_float8() -> None:
    for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        tensor = pirkit.tensor(np.arange(4).astype(kind))
        again = pirkit.from_dlpack(tensor)
        assert again.address == tensor.address
        assert again.array.dtype == np.dtype(kind)


def test_read_only_memory_stays_read_only() -> None:
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    tensor = pirkit.from_numpy(frozen)
    assert not tensor.writable
    with pytest.raises(RuntimeFault, match="read-only"):
        tensor[0] = 2.0
    assert not pirkit.from_dlpack(tensor).writable


def test_negative_strides_are_copied_for_the_consumer() -> None:
    tensor = pirkit.from_numpy(np.arange(4, dtype=np.float32)[::-1])
    found = np.from_dlpack(tensor)
    np.testing.assert_array_equal(found, [3, 2, 1, 0])
    assert min(found.strides) > 0
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=False)


def test_versions_count_writes_of_all_views() -> None:
    tensor = pirkit.tensor(np.zeros((2, 2), np.float32))
    view = tensor[0]
    view[...] = 1.0
    tensor += 1.0
    assert tensor.version == view.version == 2
    assert tensor.copy().version == 0


def test_metas_of_equal_tensors_are_one_object() -> None:
    one, other = pirkit.tensor(np.zeros((2, 3))), pirkit.tensor(np.ones((2, 3)))
    assert one.meta is other.meta
    assert one.meta is not pirkit.tensor(np.ones((3, 2))).meta


def test_the_array_api_computes_on_tensors() -> None:
    x = pirkit.tensor([1.0, 4.0])
    xp = x.__array_namespace__()
    found = xp.sqrt(x) + xp.asarray(x)
    assert isinstance(found, DenseTensor)
    assert found.dtype is dt.float32
    np.testing.assert_array_equal(found, [2.0, 6.0])
    assert isinstance(np.exp(x), DenseTensor)


def test_an_executable_takes_tensors_without_a_copy() -> None:
    from tests.unit.runtime.test_planning import chain, executable

    exe = executable(chain(2))
    x = pirkit.tensor(np.ones(4, np.float32))
    np.testing.assert_allclose(exe(x=x)["y"], np.tanh(np.tanh(np.ones(4, np.float32))))


# --- other frameworks ---


def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16", "int64", "bool"])
def test_torch_shares_both_ways(kind: str) -> None:
    th = torch()
    theirs = th.ones((2, 3), dtype=getattr(th, kind))
    ours = pirkit.from_dlpack(theirs)
    assert ours.address == theirs.data_ptr()
    assert ours.dtype.name == kind
    back = th.from_dlpack(ours)
    assert back.data_ptr() == theirs.data_ptr()
    assert back.dtype == theirs.dtype


def test_torch_refuses_to_be_shared_while_it_needs_gradients() -> None:
    th = torch()
    with pytest.raises((BufferError, RuntimeError)):
        pirkit.from_dlpack(th.ones(2, requires_grad=True))


def test_torch_reads_negative_strides_of_ours() -> None:
    th = torch()
    ours = pirkit.from_numpy(np.arange(4, dtype=np.float32)[::-1])
    np.testing.assert_array_equal(th.from_dlpack(ours).numpy(), [3, 2, 1, 0])


@pytest.mark.paddle
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bfloat16"])
def test_paddle_shares_both_ways(kind: str) -> None:
    paddle = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
    theirs = paddle.ones([2, 3], dtype=kind)
    ours = pirkit.from_dlpack(theirs)
    assert ours.address == theirs.data_ptr()
    assert ours.dtype.name == kind
    back = paddle.utils.dlpack.from_dlpack(ours)
    assert back.data_ptr() == theirs.data_ptr()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_jax_takes_a_copy(dtype: str) -> None:
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed")
    ours = pirkit.ops.full([3], 1.0, dtype=dtype)
    theirs = jnp.asarray(ours)
    ours[1] = 0
    assert str(theirs.dtype) == dtype
    np.testing.assert_array_equal(np.asarray(theirs, np.float32), np.ones(3, np.float32))


def test_jax_shares_with_us() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed")
    theirs = jnp.ones((2, 3), "float32")
    ours = pirkit.from_dlpack(theirs)
    assert ours.address == theirs.unsafe_buffer_pointer()
    np.testing.assert_array_equal(ours, np.ones((2, 3)))


@pytest.mark.parametrize("data", [[None], ["a"], [2**63]], ids=["none", "text", "uint64"])
def test_what_no_tensor_holds_is_refused(data: Any) -> None:
    with pytest.raises(UnsupportedError, match="no tensor has elements"):
        pirkit.tensor(data)


@pytest.mark.parametrize("make", [pirkit.tensor, pirkit.from_numpy])
def test_masked_arrays_are_refused(make: Callable[[Any], Any]) -> None:
    """Their masks were dropped."""
    with pytest.raises(UsageError, match="mask"):
        make(np.ma.masked_equal(np.array([1.0, 2.0]), 2.0))


def test_a_tensor_of_tensors() -> None:
    parts = [pirkit.tensor(x, "bfloat16") for x in (1.0, 2.0)]
    assert pirkit.tensor(parts).dtype is dt.bfloat16
    assert pirkit.tensor(parts).tolist() == [1.0, 2.0]


def test_places_by_name() -> None:
    x = pirkit.tensor([1.0], place="cpu")
    assert x.to("cpu") is x
    assert pirkit.from_dlpack(x, device="cpu").address == x.address
    with pytest.raises(UnsupportedError, match="brought to cuda:0"):
        x.to("cuda")


def test_updates_do_not_warn() -> None:
    with np.errstate(all="raise"):
        assert pirkit.tensor([3, 0]).at[1].divide(0).tolist() == [3, -(2**63)]
        assert pirkit.tensor([1.0]).at[0].set(1e300).tolist() == [np.inf]


def test_membership_is_that_of_elements() -> None:
    x = pirkit.tensor([[1, 5], [2, 3]])
    assert 5 in x
    assert 7 not in x


COPIES: Final[dict[str, Callable[[Any], Any]]] = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}  # fmt: skip


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("size", [3, 1 << 18])
def test_copies_have_memory_of_their_own(how: str, size: int) -> None:
    """The type of a copy was another object, which ops refuse, and its buffer that of the original,
    which cannot be pickled if it is a large one."""
    x = pirkit.ops.exp(pirkit.tensor(np.zeros(size), "float32"))
    x[0] = 2.0
    made = COPIES[how](x)
    assert (made.offset, made.version) == (0, 0)
    made[0] = 5.0
    assert (x[0].item(), x.version) == (2.0, 1)
    assert pirkit.ops.add(x, made)[0].item() == 7.0


def test_elements_without_a_type_get_that_of_paddle() -> None:
    typed = [pirkit.tensor(x).dtype for x in (1.5, [1, 2], [True], 1j, [], np.float64(1))]
    assert typed == [dt.float32, dt.int64, dt.bool_, dt.complex64, dt.float32, dt.float64]


def test_a_capsule_is_read_once() -> None:
    tensor = pirkit.tensor([1.0, 2.0], "bfloat16")
    capsule = tensor.__dlpack__()
    assert pirkit.from_dlpack(capsule).address == tensor.address
    with pytest.raises(UsageError, match="no unused DLPack capsule"):
        pirkit.from_dlpack(capsule)


def test_memory_lives_as_long_as_a_borrower() -> None:
    source = np.ones(1000, ml_dtypes.bfloat16)
    gone = weakref.ref(owner := pirkit.from_numpy(source))
    borrower = pirkit.from_dlpack(owner)
    del owner
    assert gone() is None
    references = sys.getrefcount(source)
    assert (borrower.numpy() == 1).all()
    del borrower
    gc.collect()
    assert sys.getrefcount(source) < references


def test_half_precision_is_summed_in_float32() -> None:
    tensor = pirkit.tensor(np.ones((2, 1000)), "bfloat16")
    xp = tensor.__array_namespace__()
    sums = (np.sum(tensor, axis=1), xp.sum(tensor, axis=1))
    for total in (*sums, tensor @ tensor[0], xp.matmul(tensor, tensor[0])):
        assert total.dtype is dt.bfloat16
        assert total.tolist() == [1000.0, 1000.0]
    assert xp.sum(tensor, dtype=xp.float32).dtype is dt.float32


SUMS: Final[dict[str, tuple[float, Callable[[Any, Any], Any]]]] = {
    "average": (1.0, lambda xp, x: xp.average(x)),
    "float8": (1.0, lambda xp, x: x.astype("float8_e4m3fn").mean()),
    "keyword": (1000.0, lambda xp, x: xp.sum(a=x)),
    "nancumsum": (1000.0, lambda xp, x: xp.nancumsum(x)[-1]),
    "nanmean": (1.0, lambda xp, x: xp.nanmean(x)),
    "nanstd": (0.0, lambda xp, x: xp.nanstd(x)),
    "norm": (31.625, lambda xp, x: xp.linalg.vector_norm(x)),
    "trace": (300.0, lambda xp, x: pirkit.tensor(np.eye(300), "bfloat16").trace()),
}


@pytest.mark.parametrize("name", SUMS)
def test_other_sums_are_in_float32_too(name: str) -> None:
    expected, function = SUMS[name]
    found = function(pirkit.numpy, pirkit.tensor(np.ones(1000), "bfloat16"))
    assert found.dtype in (dt.bfloat16, dt.float8_e4m3fn)
    assert found.item() == expected


def test_python_numbers_are_weak_beside_narrow_floats() -> None:
    x = pirkit.tensor([1.5, 2.5], "bfloat16")
    xp = pirkit.numpy
    made = [xp.maximum(x, 2.0), xp.where(x > 2, x, 2), x.clip(2, 3), xp.clip(x, min=2.0)]
    assert [(m.dtype, m.tolist()) for m in made] == [(dt.bfloat16, [2.0, 2.5])] * 4
    wide = np.float32([2.0, 2.0])
    assert [xp.clip(x, wide, None).dtype, xp.vecdot(x, wide).dtype] == [dt.float32] * 2


def test_either_limit_clips() -> None:
    x = pirkit.tensor([1.0, 2.0])
    assert pirkit.numpy.clip(x, 1.5).tolist() == pirkit.numpy.clip(x, min=1.5).tolist()
    assert pirkit.numpy.clip(x, min=1.5).tolist() == [1.5, 2.0]


def test_lists_are_summed_as_numpy_does() -> None:
    assert pirkit.numpy.sum([1.0, 2.0]).item() == 3.0


def test_numpy_functions_count_their_writes() -> None:
    tensor = pirkit.tensor([1.0, 2.0])
    assert np.add(tensor, 1, out=tensor) is tensor
    np.add.at(tensor, [0], 5)
    assert (tensor.tolist(), tensor.version) == ([7.0, 3.0], 2)
    assert (tensor @ [1.0, 1.0]).item() == 10.0
    parts, rest = np.modf(pirkit.tensor([1.5]), out=(tensor[:1], None))
    assert (parts.tolist(), rest.tolist()) == ([0.5], [1.0])


def test_a_tensor_is_a_buffer() -> None:
    tensor = pirkit.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    view = memoryview(tensor) if sys.version_info >= (3, 12) else tensor.__buffer__(0)
    assert (view.format, view.shape) == ("f", (2, 3))
    assert np.asarray(view).ctypes.data == tensor.address
    assert tensor.version == 0
    tensor.__buffer__(1)[1, 2] = 7.0
    assert tensor.array[1, 2] == 7.0
    assert tensor.version == 1
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        pirkit.from_numpy(fixed).__buffer__(1)
    with pytest.raises(BufferError, match="bfloat16"):
        pirkit.tensor([1.0], "bfloat16").__buffer__(0)


def test_the_names_of_tensors_at_the_top() -> None:
    assert pirkit.Tensor is pirkit.DenseTensor
    assert isinstance(pirkit.from_dlpack(np.ones(2)), pirkit.Tensor)
