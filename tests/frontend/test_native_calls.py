"""Calls of compiled functions whose trees native code takes apart and builds."""

import gc
import sys
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from types import BuiltinFunctionType, SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.runtime.native import program_session

Pair = namedtuple("Pair", "a b")


@pytest.fixture(params=["native", "python"], autouse=True)
def way(request, monkeypatch):
    """The same where the layout of objects is not known."""
    if request.param == "python":
        monkeypatch.setattr(program_session, "array_slot", lambda: 0)
    return request.param


def is_native(f):
    return type(f.__call__) is BuiltinFunctionType


def deep(p):
    return {"s": (p["l"][0] + p["l"][1], None), "t": [Pair(p["t"][0] * 2, -p["t"][1].b)]}


def arguments():
    x = np.arange(3.0)
    return {"l": [x, pirkit.from_numpy(x + 1)], "t": (x + 2, Pair(None, x + 3)), "n": None}


def test_trees_of_all_kinds(way):
    f = pirkit.jit(deep)
    for _ in range(4):
        made = f(arguments())
        assert type(made["t"][0]) is Pair
        assert made["s"][1] is None
        np.testing.assert_array_equal(made["s"][0], [1, 3, 5])
        np.testing.assert_array_equal(made["t"][0].a, [4, 6, 8])
        np.testing.assert_array_equal(made["t"][0].b, [-3, -4, -5])
    assert is_native(f) == (way == "native")


def test_the_second_call_makes_the_native_function(way):
    """What takes trees apart is not compiled for functions that are called once."""
    f = pirkit.jit(deep)
    f(arguments())
    assert not is_native(f)
    f(arguments())
    assert is_native(f) == (way == "native")


def test_other_trees_take_the_other_way():
    f = pirkit.jit(lambda p, k: sum(pirkit.tree.leaves(p), k))
    x = np.ones(2)
    trees = [
        {"a": x, "b": x}, {"b": x, "a": x}, {"a": x}, {"a": x, "c": x}, {"a": x, "b": x, "c": x},
        OrderedDict(a=x, b=x), [x, x], (x, x), (x, [x]), Pair(x, x), (x, None), {0: x, "a": x},
        {"a": x.astype(np.float32), "b": x}, {"a": x[::-1], "b": x}, {"a": 1.5, "b": x}, (),
    ]  # fmt: skip
    for given in [*trees, *reversed(trees)]:
        for _ in range(2):
            found = f(given, x)
            np.testing.assert_allclose(found, sum(pirkit.tree.leaves(given), x))


def test_a_key_that_is_equal_and_another_object():
    f = pirkit.jit(lambda p: p["weight" * 2] + 1)
    key = "".join(["weight", "weight"])
    for _ in range(3):
        np.testing.assert_array_equal(f({key: np.ones(2)}), [2, 2])
        np.testing.assert_array_equal(f({"weightweight": np.ones(2)}), [2, 2])


def test_keys_that_raise_are_told():
    class Key(str):
        def __eq__(self, other):
            raise OSError("no")

        __hash__ = str.__hash__

    f = pirkit.jit(lambda p: p["a"] + 1)
    x = np.ones(2)
    f({"a": x}), f({"a": x})
    with pytest.raises(OSError, match="no"):
        f({Key("a"): x})
    np.testing.assert_array_equal(f({"a": x}), [2, 2])


def test_a_key_that_changes_the_containers():
    class Key(str):
        def __eq__(self, other):
            given.clear()
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    f = pirkit.jit(lambda p: p[0]["a"] + p[1])
    given = [{"a": np.ones(2)}, np.ones(2)]
    f(given), f(given)
    given = [{Key("a"): np.ones(2)}, np.ones(2)]
    with suppress(pirkit.PirkitError, LookupError):  # where Python has read all of them before
        np.testing.assert_array_equal(f(given), [2, 2])
    assert not given


def test_numbers_and_names(way):
    @pirkit.jit
    def f(x, rate=0.5, *, count, flag=True):
        return x * rate + count * pirkit.where(flag, 1, 2)

    x = np.ones(2)
    for rate, count, flag in [(0.1, 3, True), (1e300, -4, False), (0.25, 2**40, True)]:
        want = x * rate + count * (1 if flag else 2)
        np.testing.assert_array_equal(f(x, rate, count=count, flag=flag), want)
        np.testing.assert_array_equal(f(x, rate, flag=flag, count=count), want)
    f(x, 0.5, count=1, flag=False)
    assert is_native(f) == (way == "native")
    with pytest.raises((OverflowError, pirkit.PirkitError)):
        f(x, 0.5, count=2**80, flag=True)
    with pytest.raises((TypeError, pirkit.PirkitError), match="count"):
        f(x, 0.5)


def test_static_arguments_by_identity_and_by_value():
    f = pirkit.jit(lambda x, n: x * n, static_argnums=1)
    for n in (1000, int("1000"), 7, 1000):
        np.testing.assert_array_equal(f(np.ones(2), n), [n, n])
    assert f.explain().count("\n") == 1


LAYER = SimpleNamespace()


def test_what_is_around_is_watched():
    LAYER.scale, LAYER.array, LAYER.held = 2.0, np.ones(2), [np.ones(2), 3.0]
    cell = np.full(2, 5.0)
    kept = {"n": 2}

    @pirkit.jit
    def f(x):
        return x * LAYER.scale + LAYER.array + LAYER.held[0] * LAYER.held[1] + cell * kept["n"]

    def want(x):
        return x * LAYER.scale + LAYER.array + LAYER.held[0] * LAYER.held[1] + cell * kept["n"]

    x = np.arange(2.0)
    changes = [
        lambda: setattr(LAYER, "scale", 3.5),
        lambda: setattr(LAYER, "array", np.full(2, 7.0)),
        lambda: LAYER.array.fill(4.0),
        lambda: LAYER.held.__setitem__(1, 9.0),
        lambda: setattr(LAYER, "held", (np.full(2, 8.0), 1.0)),
        lambda: kept.update(n=5),
    ]
    for change in changes:
        for _ in range(3):
            np.testing.assert_array_equal(f(x), want(x))
        change()
    cell = np.full(2, 11.0)
    np.testing.assert_array_equal(f(x), want(x))
    del LAYER.scale
    with pytest.raises(AttributeError, match="scale"):
        f(x)
    LAYER.scale = 2.0
    np.testing.assert_array_equal(f(x), want(x))


def test_an_interrupt_while_looking_around_is_not_lost():
    class Layer:
        raising = None

        def __getattr__(self, name):
            raise self.raising

    layer = Layer()
    layer.n = 2.0
    f = pirkit.jit(lambda x: x * layer.n)
    f(np.ones(2)), f(np.ones(2))
    del layer.n
    for error in (KeyboardInterrupt, MemoryError):
        Layer.raising = error
        with pytest.raises(error):
            f(np.ones(2))
    layer.n = 3.0
    np.testing.assert_array_equal(f(np.ones(2)), [3, 3])


def test_references_of_containers_balance(way):
    f = pirkit.jit(lambda p, rate: {"s": p["l"][0] * rate, "t": (p["t"][1].b, [p["l"][1]])})
    given = arguments()
    rate = 0.12345
    watched = [given, given["l"], given["t"], given["t"][1], *given["l"], rate, "s", LAYER, f]

    def calls(count):
        for _ in range(count):
            f(given, rate)
            f(given, 2)
            f({"l": given["l"]} | given, rate)
            with pytest.raises(pirkit.PirkitError):
                f({"l": given["l"]}, "no")
        gc.collect()

    calls(5)
    before = [sys.getrefcount(thing) for thing in watched]
    objects = len(gc.get_objects())
    calls(300)
    after = [sys.getrefcount(thing) for thing in watched]
    assert np.abs(np.subtract(after, before)).max() < 20
    assert len(gc.get_objects()) < objects + 200


def test_a_function_that_nobody_holds_is_collected():
    f = pirkit.jit(lambda x: x + 1)
    f(np.ones(2)), f(np.ones(2))
    watched = weakref.ref(f)
    del f
    gc.collect()
    assert watched() is None


def test_a_class_that_cannot_be_rebuilt_raises_at_every_call():
    class Fussy:
        def __init__(self, part):
            self.part = part

    turns = []

    def rebuilt(extra, parts):
        turns.append(0)
        if len(turns) % 3 == 0:
            raise RuntimeError("fussy")
        return Fussy(*parts)

    pirkit.tree.register(Fussy, lambda t: ((t.part,), None), rebuilt)
    f = pirkit.jit(lambda x: Fussy(x + 1))
    raised = 0
    for _ in range(12):
        try:
            np.testing.assert_array_equal(f(np.ones(2)).part, [2, 2])
        except RuntimeError:
            raised += 1
    assert 3 <= raised <= 5


def test_a_call_inside_of_a_call():
    """A finalizer that runs while a call makes its results calls the same function."""
    f = pirkit.jit(lambda p: [p["a"] + i for i in range(40)])
    seen = []

    class Last:
        def __init__(self, number):
            self.number, self.self = number, self

        def __del__(self):
            seen.append((self.number, f({"a": np.full(2, self.number)})[3].numpy()[0]))

    f({"a": np.zeros(2)}), f({"a": np.zeros(2)})
    threshold = gc.get_threshold()
    gc.set_threshold(3, 1, 1)
    try:
        for k in range(20):
            Last(1000.0 + k)
            held = f({"a": np.full(2, float(k))})
            assert [t.numpy()[0] for t in held] == [k + i for i in range(40)]
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(seen) == 20
    assert all(value == number + 3 for number, value in seen)


def test_threads_that_change_the_arguments():
    """The arrays of a call live until it ends, whatever other threads do to its containers."""

    def turns(p):
        return pirkit.fori_loop(0, 3000, lambda i, s: s * 0.5 + 1.0, p["a"])

    f = pirkit.jit(turns)
    given, stop = {"a": np.zeros(5000)}, Event()
    f(given), f(given)

    def change():
        while not stop.is_set():
            given["a"] = np.zeros(5000)

    def work(_):
        return all((f(given).numpy() == 2.0).all() for _ in range(6))

    with ThreadPoolExecutor(5) as workers:
        changing = [workers.submit(change) for _ in range(2)]
        assert all(workers.map(work, range(3)))
        stop.set()
        assert all(task.result() is None for task in changing)


@dataclass
class _Layer:
    w: Any
    b: Any
    name: str = ""


pirkit.tree.register_dataclass(_Layer, meta_fields=("name",))


class _Held:
    def __init__(self, part: Any, kind: str) -> None:
        self.part, self.kind = part, kind


pirkit.tree.register(_Held, lambda h: ((h.part,), h.kind), lambda kind, p: _Held(*p, kind))
SCALARS: Final = (
    bool, int, float, complex, np.float64, np.float32, np.float16, np.int64, np.int32, np.int8,
    np.uint8, np.bool_, np.complex128, np.complex64,
)  # fmt: skip


@pytest.mark.parametrize("kind", SCALARS)
def test_scalars_of_every_kind(kind: Any) -> None:
    x, f = np.arange(3.0), pirkit.jit(lambda x, s: (x * 2, s))
    for value in (1, 0, 1, 1):
        again, found = f(x, kind(value))
        assert found.item() == value
        np.testing.assert_array_equal(again, x * 2)
    assert len(f.explain().splitlines()) == 1
    assert f(x, np.asarray(kind(0)))[1].item() == 0  # the same signature, but not for numbers


CLASSES: Final[dict[str, tuple[Any, Any]]] = {
    "dataclass": (lambda x, k: _Layer(x, [x * 2]), lambda v: v.w * v.b[0]),
    "another name": (lambda x, k: _Layer(x, [x], str(k)), lambda v: v.w * len(v.name)),
    "registered": (lambda x, k: _Held(x, "a"), lambda v: v.part * 3),
    "another kind": (lambda x, k: _Held(x, "ab"[k % 2]), lambda v: v.part * ord(v.kind)),
    "ordered": (lambda x, k: OrderedDict(b=x, a=x * 2), lambda v: v["b"] - v["a"]),
    "another order": (
        lambda x, k: OrderedDict(b=x, a=x * 2) if k % 2 else OrderedDict(a=x, b=x * 3),
        lambda v: next(iter(v.values())) * 10 + v["b"]),
    "default": (lambda x, k: defaultdict(list, a=x), lambda v: v["a"] + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_objects_of_classes_that_are_trees(name: str) -> None:
    make, use = CLASSES[name]
    f, x = pirkit.jit(use), np.arange(3.0)
    for k in range(8):
        np.testing.assert_array_equal(f(make(x + k, k)), use(make(x + k, k)))


def test_arguments_that_are_not_read() -> None:
    f, x = pirkit.jit(lambda x, y, n: x * 2), np.arange(3.0)
    for y, n in ((x, 1), (x, 2), (pirkit.tensor(x), 3), (x[:2], 1), (x, 1.0), (x, x)):
        np.testing.assert_array_equal(f(x, y, n), x * 2)
        np.testing.assert_array_equal(f(x, y, n), x * 2)
    assert len(f.explain().splitlines()) == 4


def test_what_a_class_raises_while_it_is_taken_apart() -> None:
    class Broken(Exception):
        pass

    def flatten(held: Any) -> Any:
        if held.kind == "broken":
            raise Broken
        return (held.part,), None

    inner = type("Fragile", (_Held,), {})
    pirkit.tree.register(inner, flatten, lambda _, parts: inner(*parts, ""))
    f, x = pirkit.jit(lambda v: v.part + 1), np.zeros(2)
    f(inner(x, "")), f(inner(x, ""))
    for _ in range(3):
        with pytest.raises(Broken):
            f(inner(x, "broken"))
        assert f(inner(x, "")).tolist() == [1.0, 1.0]


def test_a_call_that_raises_gives_its_session_back(monkeypatch):
    made = []
    begin = program_session.Session.__init__
    monkeypatch.setattr(program_session.Session, "__init__", lambda s, p: made.append(begin(s, p)))
    taken = pirkit.jit(lambda x, i: x[i] * 2)
    x = np.arange(3.0)
    for _ in range(4):  # the first two take the general way
        with pytest.raises(pirkit.PirkitError, match="index"):
            taken(x, np.array(7))
        assert taken(x, np.array(1)) == 2
    assert len(made) == 1
