"""What is around a function, and in its arguments, is looked at as rarely as is right."""

import sys
import threading
from array import array
from collections import UserList, deque
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.runtime.native import tree_call as calls
from pirkit.runtime.native.step_memos import Memo, versions_are_known, with_memos
from pirkit.runtime.native.tree_call_ir import Use

RATE = 2.0


@pytest.fixture
def memos(monkeypatch):
    """How many memos each native call has."""
    found = []

    def counted(steps):
        made = with_memos(steps)
        found.append(sum(s.use is Use.RECALL for s in made))
        return made

    monkeypatch.setattr(calls, "with_memos", counted)
    return found


def expect(memos, least):
    assert memos[-1] >= least if versions_are_known() else not memos[-1]


class Model:
    rate = 2.0

    def __init__(self):
        self.w, self.scale, self.calls = np.arange(3.0), 3.0, 0

    def __call__(self, x):
        return x * self.w * self.scale * self.rate


def agree(f, g, *args):
    for _ in range(3):
        np.testing.assert_array_equal(f(*args), g(*args))


def test_dicts_of_arguments(memos):
    f = pirkit.jit(lambda ps, y: ps[0]["a"] * 2 + ps[1]["b"] + ps[1]["a"] * y)
    g = f.function
    x = np.arange(3.0)
    ps = [{"a": x, "b": x + 1}, {"b": x + 2, "a": x + 3}]
    agree(f, g, ps, x)
    expect(memos, 2)
    other = [{"b": x, "a": x - 1}, {"b": x + 5, "a": x + 6}]
    for k in range(4):
        agree(f, g, ps, x)
        agree(f, g, other, x)
        ps[1]["a"] = x * k
        agree(f, g, ps, x)
        ps[0] = dict(ps[0], a=x - k)
        agree(f, g, [other[0], ps[1]], x + k)
    held = ps[0].pop("b")
    with pytest.raises(KeyError):
        agree(f, lambda p, y: p[0]["a"] * 2 + p[0]["b"], [ps[1], ps[0]], x)
    ps[0]["b"] = held
    agree(f, g, ps, x)
    ps[0]["a"] += 1  # in place
    agree(f, g, ps, x)


def test_an_update_between_calls_that_miss():
    f = pirkit.jit(lambda p, x: p["a"] * x + p["b"])
    x, p, q = np.ones(2), {"a": np.ones(2), "b": np.ones(2)}, {"a": np.zeros(2), "b": 7.0}
    for _ in range(3):
        agree(f, f.function, p, x)
        agree(f, f.function, q, x)  # another signature
        p["a"] = p["a"] + 1


def test_attributes_of_an_instance(memos):
    model = Model()
    f = pirkit.jit(lambda x: model(x))
    x = np.arange(3.0)
    agree(f, model, x)
    expect(memos, 2)
    for change in (
        lambda: setattr(model, "calls", model.calls + 1),
        lambda: setattr(model, "w", model.w + 1),
        lambda: setattr(model, "scale", 5.0),
        lambda: setattr(model, "rate", 7.0),
        lambda: delattr(model, "rate"),
        lambda: setattr(Model, "rate", 11.0),
        lambda: setattr(model, "__dict__", {"w": x, "scale": 1.5, "calls": 0}),
        lambda: setattr(model, "__class__", type("Other", (Model,), {"rate": 13.0})),
        lambda: setattr(type(model), "scale", property(lambda self: 17.0, lambda self, v: None)),
        lambda: delattr(type(model), "scale"),
        lambda: setattr(
            type(model), "__bases__", (type("Last", (Model,), {"w": property(lambda _: x + 9)}),)
        ),
    ):
        change()
        agree(f, model, x)
    Model.rate = 2.0


def test_properties_are_asked_each_time():
    class Layer:
        def __init__(self):
            self._n = 1.0

        @property
        def n(self):
            self._n += 1
            return np.full(2, self._n)

        def __getattr__(self, name):
            return 3.0 if name == "more" else super().__getattribute__(name)

    layer, twin = Layer(), Layer()
    f = pirkit.jit(lambda x, n: x * n * layer.more)
    x = np.ones(2)
    for _ in range(4):
        np.testing.assert_array_equal(f(x, layer.n), x * twin.n * 3)


def test_globals_that_a_loop_writes(memos):
    global RATE, WRITTEN
    f = pirkit.jit(lambda x: x * RATE)
    x = np.ones(2)
    for k in range(6):
        WRITTEN = k  # another version of the globals
        np.testing.assert_array_equal(f(x), x * RATE)
        if k % 2:
            RATE = float(k)
    expect(memos, 1)


def test_references_balance():
    held = SimpleNamespace(w=np.ones(2), k=3.0)
    f = pirkit.jit(lambda p: p["a"] * held.w * held.k + p["b"])
    p = {"a": np.ones(2), "b": np.ones(2)}
    watched = [p, p["a"], p["b"], held, held.w, held.__dict__]

    def run(count):
        for k in range(count):
            f(p)
            if k % 3 == 0:
                held.k = 3.0
            if k % 5 == 0:
                p["a"] = p["a"]

    run(5)
    before = [sys.getrefcount(w) for w in watched]
    run(1000)
    assert [sys.getrefcount(w) for w in watched] == before


def test_only_plain_instances_have_memos():
    class Slots:
        __slots__ = ("n",)

    class Asked:
        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    class Wrapped(dict):
        pass

    for make in (Slots, Asked):
        held = make()
        held.n = 2.0
        f = pirkit.jit(lambda x, held=held: x * held.n)
        g = pirkit.jit(lambda x: x * held.n)  # noqa: B023
        agree(f, lambda x: x * 2, np.ones(2))
        agree(g, lambda x: x * 2, np.ones(2))
        held.n = 4.0
        agree(g, lambda x: x * 4, np.ones(2))
    wrapped = Wrapped(a=np.ones(2))
    h = pirkit.jit(lambda x: x * wrapped["a"])
    agree(h, h.function, np.ones(2))
    wrapped["a"] = np.zeros(2)
    agree(h, h.function, np.ones(2))


def test_a_memo_as_words():
    memo = Memo(2, ((8, 1), (-24, 2)), (24,))
    assert memo.words() == [0, 2, 3, 2, 8, 1, -24, 2, 24, 0]


def test_methods_and_what_they_read(memos):
    global RATE

    class Layer:
        def method(self):
            return RATE

        @property
        def property(self):
            return RATE

        @classmethod
        def of_class(cls):
            return RATE

        @staticmethod
        def static():
            return RATE

        def __call__(self, x):
            return x * RATE

    layer = Layer()
    ways = {
        "method": (lambda x: x * layer.method(), lambda self: 3.0),
        "property": (lambda x: x * layer.property, property(lambda self: 3.0)),
        "of_class": (lambda x: x * layer.of_class(), classmethod(lambda cls: 3.0)),
        "static": (lambda x: x * layer.static(), staticmethod(lambda: 3.0)),
        "__call__": (lambda x: layer(x), lambda self, x: x * 3.0),
    }
    x = np.ones(2)
    for name, (function, other) in ways.items():
        RATE = 2.0
        f = pirkit.jit(function)
        agree(f, function, x)
        RATE = 5.0
        agree(f, function, x)
        setattr(Layer, name, other)
        agree(f, function, x)
        np.testing.assert_array_equal(f(x), [3, 3])
        RATE = 2.0
        expect(memos, 1)


def test_an_object_at_two_places():
    one, other = Model(), Model()
    other.w = other.w + 5
    held, kept = [one], {"w": np.ones(3)}
    shared = [kept, kept]
    f = pirkit.jit(lambda x: x * one.w * held[0].w + shared[0]["w"] * shared[1]["w"])
    x = np.arange(3.0)
    agree(f, f.function, x)
    held[0] = other
    agree(f, f.function, x)
    shared[1] = {"w": np.full(3, 4.0)}
    agree(f, f.function, x)


class Rate:
    """A descriptor that reads a global."""

    def __get__(self, instance, owner=None):
        return RATE


class Layer:
    rate = Rate()


def deepest(held):
    while isinstance(held, list):
        held = held[0]
    return held


def replace_deepest(held, value):
    while isinstance(held[0], list):
        held = held[0]
    held[0] = value


TUPLES, FLOATS, ENDS = {(0, 1): 2.0}, {1.5: 2.0}, deque([2.0])
NESTED: list[Any] = [[[[[[[[2.0]]]]]]]]
BYTES, NUMBERS, LISTED = bytearray(b"\x02"), array("d", [2.0]), UserList([2.0])
TABLE, NAMED = np.array([2.0, 1.0, 0.5]), np.array([(2.0,)], [("a", "f8")])
PARTS, COLUMNS = np.array([2, 1, 3], np.int8), np.arange(6.0).reshape(2, 3)[:, ::2]
CONTEXT, LOCAL, LAYER = ContextVar("context", default=2.0), threading.local(), Layer()
LOCAL.value = 2.0


def own_rate(x):
    return x * own_rate.rate


own_rate.rate = 2.0

PLACES = {
    "tuple as a key": (lambda x: x * TUPLES[0, 1], lambda: TUPLES.update({(0, 1): 3.0})),
    "float as a key": (lambda x: x * FLOATS[1.5], lambda: FLOATS.update({1.5: 3.0})),
    "deque": (lambda x: x * ENDS[0], lambda: ENDS.appendleft(3.0)),
    "UserList": (lambda x: x * LISTED[0], lambda: LISTED.__setitem__(0, 3.0)),
    "deep list": (lambda x: x * deepest(NESTED), lambda: replace_deepest(NESTED, 3.0)),
    "bytearray": (lambda x: x * BYTES[0], lambda: BYTES.__setitem__(0, 3)),
    "array.array": (lambda x: x * NUMBERS[0], lambda: NUMBERS.__setitem__(0, 3.0)),
    "element of an array": (lambda x: x * float(TABLE[0]), lambda: TABLE.__setitem__(0, 3.0)),
    "last element": (lambda x: x * float(TABLE[2]), lambda: TABLE.__setitem__(2, 3.0)),
    "part of an array": (lambda x: x * TABLE[1:].sum(), lambda: TABLE.__setitem__(1, 7.0)),
    "few bytes": (lambda x: x * int(PARTS[2]), lambda: PARTS.__setitem__(2, 9)),
    "array with strides": (lambda x: x * COLUMNS[1].sum(), lambda: COLUMNS.__setitem__((1, 1), 9)),
    "structured array": (lambda x: x * float(NAMED["a"][0]), lambda: NAMED.fill((3.0,))),
    "context variable": (lambda x: x * CONTEXT.get(), lambda: CONTEXT.set(3.0)),
    "thread-local variable": (lambda x: x * LOCAL.value, lambda: setattr(LOCAL, "value", 3.0)),
    "descriptor": (lambda x: x * LAYER.rate, lambda: globals().update(RATE=RATE + 1)),
    "attribute of a function": (own_rate, lambda: setattr(own_rate, "rate", 3.0)),
}


@pytest.mark.parametrize("name", PLACES)
def test_everything_around_a_function_is_watched(name):
    function, change = PLACES[name]
    f = pirkit.jit(function)
    x = np.ones(2)
    agree(f, function, x)
    before = np.asarray(f(x))
    change()
    agree(f, function, x)
    assert (np.asarray(f(x)) != before).all()


def test_an_array_that_is_an_input_may_change():
    f = pirkit.jit(lambda x: x * TABLE)
    x = np.ones(3)
    for k in range(4):
        TABLE[1] = k
        agree(f, f.function, x)
    assert len(f.explain().splitlines()) == 1
