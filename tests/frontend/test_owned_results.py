"""Results of compiled functions are the caller's: no later call writes what anybody still holds."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import pirkit
from pirkit.runtime.native import program_session, tensor_call
from pirkit.runtime.native.tensor_call import MOST_KEPT

WAYS_TO_HOLD = {
    "tensor": lambda t: t,
    "array": lambda t: t.array,
    "row": lambda t: t.array[1:],
    "numpy": np.asarray,
    "view of a view": lambda t: t.array[1:].reshape(-1, 1)[:, 0],
    "slice of a tensor": lambda t: t[1:],
    "memory view": lambda t: memoryview(t.array),
    "dlpack": lambda t: np.from_dlpack(t),
    "buffer": lambda t: (t.buffer.owner, t.array)[0],
}


@pytest.fixture(params=["native", "python"], autouse=True)
def way(request, monkeypatch):
    """The same through native code and where the layout of objects is not known."""
    if request.param == "python":
        monkeypatch.setattr(program_session, "array_slot", lambda: 0)
    return request.param


@pytest.mark.parametrize("hold", WAYS_TO_HOLD.values(), ids=WAYS_TO_HOLD)
def test_what_is_held_stays_as_it_was(hold):
    f = pirkit.jit(lambda x: (x + 1, x * 2))
    x = np.zeros(3)
    held = []
    for k in range(12):
        x[:] = k
        held.append(hold(f(x)[0]))
    for k, kept in enumerate(held):
        np.testing.assert_array_equal(np.asarray(kept), np.full(len(np.asarray(kept)), k + 1.0))


def test_results_are_arguments_of_the_next_call():
    f = pirkit.jit(lambda x, y: (y + 1, x))
    a, b = f(np.zeros(2), np.zeros(2))
    seen = []
    for _ in range(20):
        a, b = f(a, b)
        seen.append(a.numpy()[0])
    assert seen == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11]


def test_a_dropped_result_is_written_again(way):
    if way == "python":
        pytest.skip("Python code makes new arrays")
    f = pirkit.jit(lambda x: x + 1)
    x = np.zeros(4)
    f(x)
    addresses = {f(x).address for _ in range(50)}
    assert len(addresses) == 1


def _trees():
    f = pirkit.jit(lambda x: {"a": [x + 1, (x * 2, None)], "b": x - 1, "c": {}})
    x = np.zeros(3)

    def call(k):
        x[:] = k
        return f(x)

    call(0), call(0)
    return call


def _plain(made):
    return pirkit.tree.map(lambda t: t.numpy().tolist(), made)


def _wanted(k):
    return {"a": [[k + 1.0] * 3, ([2.0 * k] * 3, None)], "b": [k - 1.0] * 3, "c": {}}


PARTS = {
    "tree": lambda made: made,
    "list": lambda made: made["a"],
    "tuple": lambda made: made["a"][1],
    "empty": lambda made: made["c"],
    "tensor": lambda made: made["a"][1][0],
    "array": lambda made: made["b"].array,
    "iterator": lambda made: iter(made["a"]),
    "items": lambda made: made.items(),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_trees_that_are_held_stay_as_they_were(part):
    call = _trees()
    held = [(k, PARTS[part](call(k))) for k in range(1, 10)]
    assert len({id(h) for _, h in held}) == len(held)
    for k, kept in held:
        if part in ("tree", "list", "tuple", "tensor", "array"):
            want = PARTS[part](_wanted(k)) if part not in ("array",) else _wanted(k)["b"]
            assert (kept.tolist() if part in ("tensor", "array") else _plain(kept)) == want
    assert _plain(call(20)) == _wanted(20)


CHANGES = {
    "an item": lambda made: made.update(b=3),
    "the order": lambda made: made.update(a=made.pop("a")),
    "another key": lambda made: made.update(d=None),
    "no keys": lambda made: made.clear(),
    "an element": lambda made: made["a"].__setitem__(1, (made["a"][1][0], None)),
    "more elements": lambda made: made["a"].append(4),
    "elements the other way round": lambda made: made["a"].reverse(),
    "an inner dict": lambda made: made["c"].update(z=1),
    "elements of a result": lambda made: made["b"].numpy().__setitem__(0, 9.0),
    "a tensor": lambda made: made["b"].__setitem__(0, 9.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_trees_that_were_changed_are_not_results_again(change):
    call = _trees()
    for k in range(8):
        made = call(k)
        CHANGES[change](made)
        del made
        made = call(k + 0.5)
        assert _plain(made) == _wanted(k + 0.5)
        assert list(made) == ["a", "b", "c"]


def test_a_dropped_tree_is_the_next_result(way):
    call = _trees()
    first = id(call(1))
    again = {id(call(k)) for k in range(5)}
    if way == "native" and sys.version_info < (3, 13):
        assert again == {first}


def test_what_a_receiver_puts_into_a_tree_is_not_kept_for_long():
    class Large:
        pass

    call = _trees()
    watched = []
    for _ in range(6):
        made = call(1)
        made["large"] = Large()
        watched.append(weakref.ref(made["large"]))
        del made
    call(1), call(1)
    gc.collect()
    assert all(w() is None for w in watched)


def test_trees_in_turn_as_a_training_loop_has_them():
    f = pirkit.jit(lambda p, k: (p["w"].sum(), {"w": p["w"] + k, "b": [p["b"][0] * 2]}))
    p, seen = {"w": np.zeros(2), "b": [np.ones(1)]}, []
    for _ in range(12):
        value, p = f(p, 1.0)
        seen.append(value)
    assert [float(v) for v in seen] == [2.0 * k for k in range(12)]
    assert p["w"].tolist() == [12.0, 12.0]
    assert p["b"][0].tolist() == [4096.0]


def test_one_result_at_several_places():
    f = pirkit.jit(lambda x: (lambda y: [y, (y, x * 3)])(x + 1))
    x, held = np.zeros(2), []
    for k in range(10):
        x[:] = k
        made = f(x)
        assert made[0].tolist() == made[1][0].tolist() == [k + 1.0] * 2
        held.append(made[1][0])
        del made
    assert [h.tolist()[0] for h in held] == [k + 1.0 for k in range(10)]


def test_changed_arrays_are_not_taken_again():
    f = pirkit.jit(lambda x: x + 1)
    x = np.zeros((2, 3))
    for change in (
        lambda a: a.setflags(write=False),
        lambda a: a.resize((3, 2)),
        lambda a: a.__setstate__((1, (6,), np.dtype(np.float64), False, bytes(48))),
    ):
        for _ in range(5):
            made = f(x)
            change(made.array)
            del made
            np.testing.assert_array_equal(f(x), np.ones((2, 3)))


def test_weak_references_die_with_the_result():
    f = pirkit.jit(lambda x: x + 1)
    x = np.zeros(2)
    f(x)
    watched = []
    for _ in range(6):
        made = f(x)
        watched.append(weakref.ref(made))
        assert not any(old() is made for old in watched[:-1])


def test_references_balance():
    f = pirkit.jit(lambda p: (p["a"] + 1, p["b"] * 2.0))
    arguments = {"a": pirkit.from_numpy(np.zeros(3)), "b": np.ones((2, 2), np.float32)}
    watched = [np.dtype(np.float64), np.dtype(np.float32), arguments["a"], arguments["b"], None]
    f(arguments)
    watched += [t.meta for t in f(arguments)]
    f(arguments), f(arguments)
    gc.collect()
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(2000):
        f(arguments)
    after = [sys.getrefcount(thing) for thing in watched]
    assert [b - a for a, b in zip(before, after, strict=True)] == pytest.approx([0] * 7, abs=20)


def test_nothing_is_left_behind():
    f = pirkit.jit(lambda x: (x + 1, x * 2))
    x = np.ones(5)
    for _ in range(10):
        f(x)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(1000):
        f(x)
    gc.collect()
    assert len(gc.get_objects()) < before + 100


def test_unfit_arguments_take_the_other_way():
    f = pirkit.jit(lambda x: x.sum(axis=0))
    rows = np.arange(6.0).reshape(2, 3)
    for x in (rows, rows.T, np.asfortranarray(rows), rows[:, ::-1], rows[:1]):
        for _ in range(3):
            np.testing.assert_allclose(f(x), x.sum(axis=0))
    assert f(rows.view(type("Sub", (np.ndarray,), {}))).shape == (3,)


@pytest.mark.parametrize("size", [1, MOST_KEPT // 8, MOST_KEPT // 8 + 1, 1 << 16])
def test_small_and_large_results(size):
    f = pirkit.jit(lambda x: (x + 1, x * 2))
    x = np.arange(float(size))
    for first, second in pairwise([f(x) for _ in range(5)]):
        assert first[0].address != second[0].address
        np.testing.assert_array_equal(first[0], x + 1)
        np.testing.assert_array_equal(second[1], x * 2)


def test_a_call_without_memory_says_so(monkeypatch):
    full = []

    def made(meta):
        if full and meta.shape == (1 << 16,):
            raise MemoryError
        return np.empty(meta.shape, meta.dtype.np)

    monkeypatch.setattr(tensor_call, "array_maker", lambda meta: partial(made, meta))
    f = pirkit.jit(lambda x: (x[0] * 2, x + 1))
    x = np.zeros(1 << 16)
    f(x), f(x)
    native = next(iter(f._compiled.values()))[0].whole.native
    monkeypatch.setattr(native, "makers", [partial(made, m) for m in native.results])
    full.append(True)
    with pytest.raises(pirkit.PirkitError, match="memory"):
        f(x)
    full.clear()
    np.testing.assert_array_equal(f(x)[1], x + 1)


def test_threads_get_results_of_their_own():
    f = pirkit.jit(lambda x: (x + 1, x * 2))
    f(np.zeros(64))

    def work(number):
        x = np.full(64, float(number))
        held = []
        for _ in range(300):
            a, b = f(x)
            held.append(a)
            assert (b.numpy() == 2 * number).all()
        return all((a.numpy() == number + 1).all() for a in held)

    with ThreadPoolExecutor(4) as workers:
        assert all(workers.map(work, range(8)))


def test_violated_assertions_raise_at_every_call():
    f = pirkit.jit(lambda x, i: x[i] * 2)
    x = np.arange(4.0)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, np.array([1, 2])), [2.0, 4.0])
        with pytest.raises(pirkit.PirkitError, match="does not lie in"):
            f(x, np.array([1, 9]))
