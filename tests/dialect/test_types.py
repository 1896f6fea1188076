"""Types, and what they say of values."""

from __future__ import annotations

import pytest
from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute

from pirkit.diag.errors import VerifyError
from pirkit.dialect.types import (
    INLET,
    OPAQUE,
    STACK,
    SelectedRowsType,
    dtype_of,
    element_type,
    meta_of,
    tensor_type,
    type_of,
    vec_type,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, TensorMeta, TokenMeta, VecMeta


@pytest.mark.parametrize("dtype", dt.BY_NAME.values(), ids=lambda d: d.name)
def test_dtype_survives(dtype: dt.DType) -> None:
    assert dtype_of(element_type(dtype)) is dtype
    meta = TensorMeta((2, UNKNOWN, 0), dtype)
    assert meta_of(type_of(meta)) == meta


def test_numpy_types_are_plain_attributes_once_one_is_known() -> None:
    """With a `__getattr__` in the class, Python reads every attribute twice as slowly."""
    assert dt.float32.np.itemsize == 4
    assert not hasattr(dt.DType, "__getattr__")
    assert [d.np.name for d in dt.EVERY] == [d.name for d in dt.EVERY]
    with pytest.raises(AttributeError, match="nothing"):
        getattr(dt.float32, "nothing")  # noqa: B009


def test_spelling() -> None:
    assert str(tensor_type((2, UNKNOWN), dt.float32)) == "tensor<2x?xf32>"
    assert str(tensor_type((), dt.bool_)) == "tensor<i1>"
    assert str(tensor_type((1,), dt.uint8)) == "tensor<1xui8>"
    assert str(vec_type([tensor_type((), dt.int64)])) == "!pir.vec<tensor<i64>>"


def test_equal_types_are_one_object() -> None:
    assert tensor_type((2,), dt.float32) is tensor_type((2,), dt.float32)


def test_list() -> None:
    inner = TensorMeta((2,), dt.float32)
    assert meta_of(vec_type([type_of(inner)])) == VecMeta((inner,))
    assert type_of(VecMeta((inner,))) == vec_type([type_of(inner)])


def test_what_is_no_tensor_is_a_token() -> None:
    for token in (STACK, INLET, OPAQUE):
        meta = meta_of(token)
        assert isinstance(meta, TokenMeta)
        assert type_of(meta) == token
    rows = SelectedRowsType(tensor_type((2,), dt.float32))
    assert isinstance(meta_of(rows), TokenMeta)
    assert isinstance(meta_of(vec_type([STACK])), TokenMeta)


@pytest.mark.parametrize(
    "foreign", [mlir.i1, mlir.IndexType(), mlir.FunctionType.from_lists([], [])]
)
def test_type_of_no_value(foreign: Attribute) -> None:
    with pytest.raises(VerifyError) as caught:
        meta_of(foreign)
    assert caught.value.code == "PK0105"


def test_element_of_no_tensor() -> None:
    with pytest.raises(VerifyError, match="is no element type"):
        meta_of(mlir.TensorType(mlir.IntegerType(17), [2]))
