"""Records are data classes in all that one can ask them, before and after methods are compiled."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, ClassVar

import pytest

from pirkit.diag import records

SETTINGS: tuple[dict[str, bool], ...] = (
    {}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}, {"eq": False},
    {"frozen": True, "eq": False}, {"slots": True, "weakref_slot": True, "frozen": True},
)  # fmt: skip


class Plain:
    a: int
    b: tuple[int, ...] = (1, 2)
    c: Any = field(default_factory=list[int], repr=False)
    d: float = field(default=1.0, compare=False)
    kind: ClassVar[str] = "plain"


class One:
    x: Any


class Empty:
    pass


class Checked:
    a: int
    seen: list[int] = field(default_factory=list[int], hash=False)

    def __post_init__(self) -> None:
        self.seen.append(self.a)


PLAIN: tuple[type, ...] = (Plain, One, Empty, Checked)
CALLS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3), {}), ((1, 2, 3, 4), {}), ((1, 2, 3, 4, 5), {}),
    ((), {"a": 1}), ((1,), {"a": 1}), ((1,), {"d": 2.0}), ((1,), {"e": 2}), ((), {"b": 2}),
    ((math.nan,), {}), (([1],), {}), ((), {"x": 1}), ((1,), {"b": (3,), "c": (4,)}), ((), {"e": 1}),
)  # fmt: skip


def both(plain: type, settings: dict[str, bool]) -> tuple[Any, Any]:
    """The class as `dataclasses` makes it, and as records are made."""

    def fresh() -> Any:
        body = {k: v for k, v in plain.__dict__.items() if k not in ("__dict__", "__weakref__")}
        body |= {k: copy.copy(v) for k, v in body.items() if isinstance(v, dataclasses.Field)}
        return type(plain.__name__, (), body)

    return dataclasses.dataclass(**settings)(fresh()), records.dataclass(**settings)(fresh())


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


def told(cls: Any, given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """What one sees of an instance."""
    made = outcome(lambda: cls(*given, **named))
    if isinstance(made, str):
        return [made]
    other, third = cls(*given, **named), copy.copy(made)
    state = [repr(getattr(made, f.name)) for f in fields(made)]
    seen: list[Any] = [repr(made), state, made == other, made != other, made == third, made == 1]
    seen += [outcome(lambda: made == cls(7)), outcome(lambda: hash(made) == hash(other))]
    seen += [outcome(lambda: hash(made)) if cls.__eq__ is not object.__eq__ else None]
    seen += [outcome(lambda: repr(replace(made))), repr(copy.deepcopy(made)), made.__match_args__]
    # with slots `dataclasses` refuses names that are no fields by a TypeError about `super`
    others = () if "__slots__" in cls.__dict__ and hasattr(made, "__setstate__") else ("other",)
    for name in (*(f.name for f in fields(made)), *others):
        seen += [outcome(lambda name=name: setattr(made, name, 1))]
        seen += [outcome(lambda name=name: delattr(made, name))]
    seen += [outcome(lambda: repr(made)), hasattr(made, "__dict__")]
    return seen


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("plain", PLAIN)
def test_records_are_data_classes(plain: type, settings: dict[str, bool]) -> None:
    wanted, made = both(plain, settings)
    assert [(f.name, f.type, f.default, f.init) for f in fields(made)] == [
        (f.name, f.type, f.default, f.init) for f in fields(wanted)
    ]
    assert made.__dataclass_params__.frozen == wanted.__dataclass_params__.frozen
    for _ in range(5):  # methods are compiled meanwhile
        for given, named in CALLS:
            assert told(made, given, named) == told(wanted, given, named)
    if plain is not Empty:
        assert "few" not in made.__init__.__code__.co_name


def test_methods_are_compiled_where_they_are_called_often() -> None:
    made = both(One, {"frozen": True})[1]
    few = made.__init__
    for _ in range(20):
        hash(made(1))
        assert made(2) == made(2)
    assert made.__init__ is not few
    assert made.__repr__.__code__.co_name == "few"
    held = made(3)
    for _ in range(40):
        few(held, 4)
    assert held.x == 4


def test_an_own_method_stays() -> None:
    @records.dataclass(frozen=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 5

    assert repr(Own(1)) == "own"
    assert hash(Own(1)) == 5
    assert Own(1) == Own(1) != Own(2)


def test_fields_by_name_only_and_others_that_are_not_given() -> None:
    @records.dataclass
    class Named:
        x: int
        y: int = field(kw_only=True)
        z: int = field(init=False, default=3)

    assert repr(Named(1, y=2)).endswith("Named(x=1, y=2, z=3)")
    with pytest.raises(TypeError):
        Named(1, 2)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("inner", [dataclasses.dataclass, records.dataclass])
@pytest.mark.parametrize("outer", [dataclasses.dataclass, records.dataclass])
def test_records_inherit(outer: Any, inner: Any, frozen: bool) -> None:
    class Base:
        x: int
        y: int = 2

    class Derived(Base):
        z: int = 3
        y: int = 5

    base: Any = outer(frozen=frozen)(Base)
    derived: Any = inner(frozen=frozen)(Derived)
    for _ in range(20):
        assert repr(derived(1)).endswith("Derived(x=1, y=5, z=3)")
        assert repr(base(1)).endswith("Base(x=1, y=2)")
        assert derived(1) != base(1)
        assert derived(1) == derived(1, 5, 3)
    if frozen:
        with pytest.raises(FrozenInstanceError):
            derived(1).x = 2
    else:
        derived(1).x = 2
    with pytest.raises(TypeError):
        inner(frozen=not frozen)(type("Mixed", (base,), {"__annotations__": {}}))


@records.dataclass(frozen=True, slots=True, weakref_slot=True)
class Kept:
    x: int
    inside: Any = None


def test_instances_are_pickled_and_referred_to_weakly() -> None:
    made = Kept(1, Kept(2))
    assert pickle.loads(pickle.dumps(made)) == made
    assert weakref.ref(made)() is made
    assert Kept.__doc__ is None


def test_an_instance_that_holds_itself_is_shown() -> None:
    @records.dataclass
    class Ring:
        next: Any = None

    ring = Ring()
    ring.next = ring
    assert repr(ring).endswith("Ring(next=...)")
