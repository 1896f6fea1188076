"""Slots, labels, versions, and the pool that lends scopes."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pirkit import DenseTensor, from_numpy, tensor
from pirkit.diag.errors import RuntimeFault, UsageError
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.scope.overlap import refuse_overlap
from pirkit.runtime.scope.scope import Scope
from pirkit.runtime.scope.scope_pool import MAX_IDLE_SCOPES, ScopePool


def labels_of(*names: str) -> Labels:
    labels = Labels()
    for name in names:
        labels.add(name)
    return labels


# --- labels --------------------------------------------------------------------------------------


def test_a_second_name_leaves_the_first_where_it_is() -> None:
    labels = labels_of("parameter_1", "x")
    labels.alias("middle_0", labels.slot("parameter_1"))
    assert labels.slot("middle_0") == labels.slot("parameter_1") == 0
    assert labels.names(0) == ("parameter_1", "middle_0")
    assert labels.name(0) == "parameter_1"
    assert len(labels) == 2
    assert list(labels) == ["parameter_1", "x", "middle_0"]


def test_a_name_belongs_to_one_storage() -> None:
    labels = labels_of("a", "b")
    assert labels.alias("a", 0) == 0
    with pytest.raises(UsageError, match="`a` is on the storage of `a`") as caught:
        labels.alias("a", 1)
    assert caught.value.help is not None


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="no variable 'wieght'") as caught:
        labels_of("weight").slot("wieght")
    assert caught.value.help == "did you mean 'weight'?"


# --- scopes --------------------------------------------------------------------------------------


def test_feeding_shares_memory_and_version() -> None:
    scope = Scope(labels_of("w"))
    w = tensor([1.0, 2.0])
    scope["w"] = w
    scope["w"][0] = 5.0
    assert w.tolist() == [5.0, 2.0]
    assert w.version == scope.version("w") == 1
    assert np.shares_memory(scope["w"].numpy(), w.numpy())


def test_both_names_of_a_slot_show_one_value() -> None:
    labels = labels_of("w")
    labels.alias("w_after", 0)
    scope = Scope(labels)
    scope["w"] = tensor([1.0])
    assert scope["w_after"] is scope["w"]


def test_reading_what_nobody_wrote() -> None:
    with pytest.raises(RuntimeFault, match="'w' is empty") as caught:
        Scope(labels_of("w"))["w"]
    assert caught.value.code == "PK0904"


def test_keep_drops_everything_else_and_all_but_the_shape() -> None:
    scope = Scope(labels_of("a", "b", "c"))
    for name in "abc":
        scope[name] = tensor(np.ones((4, 8), np.float32))
    assert scope.nbytes == 3 * 128
    scope.keep([0], shapes=[1])
    assert scope.nbytes == 128
    assert isinstance(scope["b"], TensorMeta)
    assert scope["b"].shape == (4, 8)
    with pytest.raises(RuntimeFault):
        scope["c"]


def test_shared_memory_counts_once() -> None:
    scope = Scope(labels_of("a", "b"))
    a = tensor(np.ones((4, 8), np.float32))
    scope["a"], scope["b"] = a, a[1:]
    assert scope.nbytes == 128


def test_verify_names_both_versions() -> None:
    scope = Scope(labels_of("y", "z"))
    y, z = tensor([1.0]), tensor([1.0])
    y += 1.0
    scope["y"], scope["z"] = y, z
    scope.keep([0, 1], watched=[0])
    z += 1.0
    scope.verify()
    y[0:1] += 1.0  # through a view: once for the view, once for the assignment
    with pytest.raises(RuntimeFault, match=r"'y' .* version 3, .* needs version 1") as caught:
        scope.verify()
    assert caught.value.code == "PK0907"


# --- the pool ------------------------------------------------------------------------------------


def test_as_many_scopes_as_are_live_and_two_idle() -> None:
    pool = ScopePool(labels_of("x"))
    scopes = [pool.take() for _ in range(7)]
    assert (pool.count().live, pool.count().made) == (7, 7)
    for scope in scopes:
        pool.give(scope)
    assert (pool.count().live, pool.count().idle) == (0, MAX_IDLE_SCOPES)
    for _ in range(10):
        pool.give(pool.take())
    assert pool.count().made == 7


def test_a_scope_comes_back_empty_and_once() -> None:
    pool = ScopePool(labels_of("x"))
    scope = pool.take()
    scope["x"] = tensor([1.0])
    pool.give(scope)
    pool.give(scope)
    assert pool.count().idle == 1
    again = pool.take()
    assert again is scope
    with pytest.raises(RuntimeFault):
        again["x"]


def test_a_scope_that_is_lost_is_forgotten() -> None:
    pool = ScopePool(labels_of("x"))
    pool.take()["x"] = tensor([1.0])
    gc.collect()
    assert (pool.count().live, pool.count().nbytes) == (0, 0)


def test_threads_never_share_a_scope() -> None:
    pool = ScopePool(labels_of("x"))

    def use(number: int) -> bool:
        scope = pool.take()
        scope["x"] = number
        same = all(scope["x"] == number for _ in range(20))
        pool.give(scope)
        return same

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(1, 400)))
    assert pool.count().live == 0
    assert pool.count().idle <= MAX_IDLE_SCOPES


# --- shared memory -------------------------------------------------------------------------------


def named(**arrays: Any) -> list[tuple[str, DenseTensor, bool]]:
    """Tensors by name; those whose name is in capitals are written."""
    return [(name, from_numpy(array), name.isupper()) for name, array in arrays.items()]


def test_what_is_only_read_may_share_memory() -> None:
    a = np.zeros(8)
    refuse_overlap(named(a=a, b=a[2:], C=np.zeros(3)))


@pytest.mark.parametrize("names", [("WHOLE", "part"), ("whole", "PART"), ("WHOLE", "PART")])
def test_what_is_written_must_not(names: tuple[str, str]) -> None:
    a = np.zeros(8)
    values = named(**dict(zip(names, (a, a[6:]), strict=True)))
    for order in (values, values[::-1]):
        with pytest.raises(RuntimeFault, match="shares memory") as caught:
            refuse_overlap([*named(OTHER=np.zeros(4)), *order])
        assert caught.value.code == "PK0908"


def test_neighbours_and_empty_arrays_do_not_overlap() -> None:
    a = np.zeros(8)
    refuse_overlap(named(A=a[:4], B=a[4:], C=a[:0], D=a[:0]))
