"""Trees of tensors: nested containers, flattened into leaves and rebuilt from them.

Lists, tuples, named tuples, dicts and None are containers; other classes are once they are
registered. Everything else is a leaf.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

from pirkit.diag.errors import ArgumentError, UsageError
from pirkit.frontend.user_line import user_span

Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten = Callable[[Any, Iterable[Any]], Any]
Test = Callable[[Any], bool]
C = TypeVar("C")

LEAF: Final = "*"


class Node(NamedTuple):
    """The structure of a container: its class, its static data, and the structures of its parts."""

    kind: type
    extra: Any
    """The keys of a dict, the other fields of a dataclass; hashable."""
    parts: tuple[Shape, ...]


Shape = Any
"""The structure of a tree without its leaves, hashable: `LEAF`, None or a `Node`."""


def _place(extra: Any, index: int) -> str:
    return f"[{index}]"


@dataclasses.dataclass(frozen=True, slots=True)
class Container:
    """How a class of containers is flattened and rebuilt."""

    flatten: Flatten
    unflatten: Unflatten
    name: Callable[[Any, int], str] = _place
    """The spelling of the part at an index in messages."""
    fields: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """For classes of attributes: those that are parts, and those that are static data."""


def _sorted(keys: Iterable[Any]) -> tuple[Any, ...]:
    """Keys in an order that does not depend on how the dict was filled."""
    found = list(keys)
    try:
        return tuple(sorted(found))
    except TypeError:  # keys of several types: by type, then by value
        return tuple(sorted(found, key=lambda k: (type(k).__qualname__, _rank(k), repr(k))))


def _rank(key: Any) -> float:
    return float(key) if isinstance(key, int | float) else 0.0


def _of_dict(tree: dict[Any, Any]) -> tuple[Iterable[Any], Any]:
    keys = _sorted(tree)
    return [tree[k] for k in keys], keys


def _of_defaultdict(tree: defaultdict[Any, Any]) -> tuple[Iterable[Any], Any]:
    keys = _sorted(tree)
    return [tree[k] for k in keys], (tree.default_factory, keys)


def _key(extra: Any, index: int) -> str:
    return f"[{extra[index]!r}]"


def _of_sequence(tree: Sequence[Any]) -> tuple[Iterable[Any], Any]:
    return tree, None


def _of_ordered(tree: OrderedDict[Any, Any]) -> tuple[Iterable[Any], Any]:
    return tree.values(), tuple(tree)


def _to_list(extra: Any, parts: Iterable[Any]) -> Any:
    return list(parts)


def _to_tuple(extra: Any, parts: Iterable[Any]) -> Any:
    return tuple(parts)


def _to_dict(extra: Any, parts: Iterable[Any]) -> Any:
    return dict(zip(extra, parts, strict=True))


def _to_ordered(extra: Any, parts: Iterable[Any]) -> Any:
    return OrderedDict(zip(extra, parts, strict=True))


def _to_default(extra: Any, parts: Iterable[Any]) -> Any:
    factory, keys = extra
    return defaultdict(factory, _to_dict(keys, parts))


def _default_key(extra: Any, index: int) -> str:
    return _key(extra[1], index)


CONTAINERS: Final[dict[type, Container]] = {
    list: Container(_of_sequence, _to_list),
    tuple: Container(_of_sequence, _to_tuple),
    dict: Container(_of_dict, _to_dict, _key),
    OrderedDict: Container(_of_ordered, _to_ordered, _key),
    defaultdict: Container(_of_defaultdict, _to_default, _default_key),
}
"""By exact class, as registered; named tuples are added when they are met."""


def container_of(cls: type) -> Container | None:
    """The container record of a class; None for leaves."""
    found = CONTAINERS.get(cls)
    if found is None and issubclass(cls, tuple) and hasattr(cast(Any, cls), "_fields"):
        found = CONTAINERS[cls] = _named_tuple(cast(Any, cls))
    return found


def _named_tuple(cls: Any) -> Container:
    fields: tuple[str, ...] = cls._fields

    def rebuilt(extra: Any, parts: Iterable[Any]) -> Any:
        return cls(*parts)

    def name(extra: Any, index: int) -> str:
        return f".{fields[index]}"

    return Container(_of_sequence, rebuilt, name)


def register(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Let objects of a class be trees, as ``jax.tree_util.register_pytree_node`` does.

    ``flatten(object)`` gives its parts and something hashable; ``unflatten(that, parts)`` makes the
    object again. Raises ArgumentError (PK0701) for a class that is registered already.
    """
    if container_of(cls) is not None:
        raise ArgumentError(f"{cls.__qualname__} is registered as a tree already",
                         help=_ONCE)  # fmt: skip
    CONTAINERS[cls] = Container(flatten, unflatten)


def register_dataclass(
    cls: type[C], data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] = ()
) -> type[C]:
    """Let a dataclass be a tree; also a decorator.

    ``data_fields`` are its parts, by default all fields but ``meta_fields``, which are hashable and
    a part of the structure. Raises ArgumentError (PK0701) for what is no dataclass, for fields that
    it does not have or that are in no list, and for a class that is registered already.
    """
    name = cls.__qualname__
    if not dataclasses.is_dataclass(cls):
        raise ArgumentError(f"{name} is no dataclass",
                         help="put `@dataclass` below it, or use `tree.register`")  # fmt: skip
    every = [f.name for f in dataclasses.fields(cls) if f.init]
    data = tuple([n for n in every if n not in meta_fields] if data_fields is None else data_fields)
    unknown = [n for n in (*data, *meta_fields) if n not in every]
    if unknown or len({*data, *meta_fields}) != len(every):
        raise ArgumentError(
            f"the fields of {name} are {', '.join(every)}",
            help="each of them belongs to `data_fields` or to `meta_fields`",
        )  # fmt: skip
    if container_of(cls) is not None:
        raise ArgumentError(f"{name} is registered as a tree already", help=_ONCE)

    def flatten(tree: Any) -> tuple[Iterable[Any], Any]:
        return [getattr(tree, n) for n in data], tuple([getattr(tree, n) for n in meta_fields])

    def unflatten(extra: Any, parts: Iterable[Any]) -> Any:
        held = zip(meta_fields, extra, strict=True)
        return cast(Any, cls)(**dict(zip(data, parts, strict=True)), **dict(held))

    def spelled(extra: Any, index: int) -> str:
        return f".{data[index]}"

    CONTAINERS[cls] = Container(flatten, unflatten, spelled, (data, tuple(meta_fields)))
    return cast("type[C]", cls)


def flatten(tree: Any, is_leaf: Test | None = None) -> tuple[list[Any], Shape]:
    """The leaves in order (those of a dict by sorted key), and the structure of the tree.

    An object for which ``is_leaf`` is true is a leaf, even a container or None. Raises
    ArgumentError (PK0701) for a tree that is nested too deep, or holds itself.
    """
    leaves: list[Any] = []
    try:
        return leaves, _shape(tree, leaves, is_leaf)
    except RecursionError as error:
        raise ArgumentError(
            f"this {type(tree).__name__} is nested too deep, or holds itself",
            span=user_span(), help="trees are nested less deep than Python's functions are",
        ) from error  # fmt: skip


def _shape(tree: Any, leaves: list[Any], is_leaf: Test | None) -> Shape:
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return LEAF
    if tree is None:
        return None
    cls = cast("type[Any]", type(tree))
    container = container_of(cls)
    if container is None:
        leaves.append(tree)
        return LEAF
    parts, extra = container.flatten(tree)
    return Node(cls, extra, tuple([_shape(p, leaves, is_leaf) for p in parts]))


def unflatten(shape: Shape, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves.

    Raises ArgumentError (PK0701) for too few or too many of them.
    """
    given = iter(leaves)
    try:
        made = rebuilt(shape, given)
    except StopIteration:
        raise _unfit("there are fewer leaves than the structure has") from None
    if next(given, _NONE) is not _NONE:
        raise _unfit("there are more leaves than the structure has")
    return made


_ONCE: Final = "register a class once, where it is defined"
_NONE: Final = object()


def rebuilt(shape: Shape, leaves: Iterator[Any]) -> Any:
    """Like `unflatten`, from an iterator that may have leaves of further trees.

    Raises StopIteration if it has too few.
    """
    if shape is None:
        return None
    if shape == LEAF:
        return next(leaves)
    node = cast(Node, shape)
    parts = [rebuilt(s, leaves) for s in node.parts]
    return CONTAINERS[node.kind].unflatten(node.extra, parts)


def static_data(shape: Shape) -> tuple[Any, ...]:
    """The static data of the objects in a tree; that of a dict, its keys, is left out."""
    todo: list[Any] = [shape]
    found: list[Any] = []
    for each in todo:
        if type(each) is Node:
            todo += each.parts
            if each.extra is not None and each.kind is not dict:
                found.append(each.extra)
    return tuple(found)


def paths(shape: Shape, start: str = "") -> list[str]:
    """How messages spell each leaf: ``['w'][0]``."""
    if shape is None:
        return []
    if shape == LEAF:
        return [start]
    node = cast(Node, shape)
    name = CONTAINERS[node.kind].name
    parts = enumerate(node.parts)
    return [p for i, part in parts for p in paths(part, start + name(node.extra, i))]


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with every leaf changed."""
    leaves, shape = flatten(tree)
    return unflatten(shape, [change(leaf) for leaf in leaves])


def map(change: Callable[..., Any], tree: Any, *others: Any, is_leaf: Test | None = None) -> Any:
    """The tree with ``change(leaf, *parts)`` in place of every leaf.

    ``parts`` are what the other trees have there, which may be whole trees, as in JAX. Raises
    ArgumentError (PK0701) for a tree of another structure.
    """
    leaves, shape = flatten(tree, is_leaf)
    rows = [leaves, *[_beneath(shape, other) for other in others]]
    return unflatten(shape, [change(*each) for each in zip(*rows, strict=True)])


def _beneath(shape: Shape, tree: Any) -> list[Any]:
    """The subtrees at the leaves of a structure, which is a prefix of the tree's own."""
    if shape == LEAF:
        return [tree]
    if shape is None and tree is None:
        return []
    cls = cast("type[Any]", type(tree))
    if shape is None or cls is not shape.kind:
        wanted = "None" if shape is None else f"a {shape.kind.__name__}"
        raise _unfit(f"the trees differ in structure: {wanted} and a {cls.__name__}")
    parts, extra = CONTAINERS[cls].flatten(tree)
    parts = list(parts)
    if extra != shape.extra or len(parts) != len(shape.parts):
        raise _unfit(f"the trees differ in structure: two {cls.__name__}s of other parts")
    pairs = zip(shape.parts, parts, strict=True)
    return [leaf for s, p in pairs for leaf in _beneath(s, p)]


def _unfit(problem: str) -> UsageError:
    return ArgumentError(problem, span=user_span(),
                      help="`pirkit.tree.structure(tree)` shows the structure")  # fmt: skip


def leaves(tree: Any, is_leaf: Test | None = None) -> list[Any]:
    """The leaves of a tree in order."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: Test | None = None) -> Shape:
    """The structure of a tree without its leaves: hashable, and equal to that of a like tree."""
    return flatten(tree, is_leaf)[1]


def reduce(
    join: Callable[[Any, Any], Any], tree: Any, *initial: Any, is_leaf: Test | None = None
) -> Any:
    """The leaves joined from left to right, as ``functools.reduce`` does."""
    return functools.reduce(join, leaves(tree, is_leaf), *initial)


def all(tree: Any, *, is_leaf: Test | None = None) -> bool:
    """Whether every leaf is true."""
    return builtins.all(leaves(tree, is_leaf))


def transpose(outer: Shape, inner: Shape, tree: Any) -> Any:
    """A tree of structure ``outer`` whose leaves are trees of ``inner``, the other way around."""
    rows = [_beneath(inner, each) for each in _beneath(outer, tree)]
    return unflatten(inner, [unflatten(outer, column) for column in zip(*rows, strict=True)])


def leaves_with_path(tree: Any, is_leaf: Test | None = None) -> list[tuple[str, Any]]:
    """Each leaf with its path, spelled as messages do: ``['w'][0]``."""
    found, shape = flatten(tree, is_leaf)
    return list(zip(paths(shape), found, strict=True))


def map_with_path(change: Callable[[str, Any], Any], tree: Any) -> Any:
    """The tree with every leaf changed, given its path and itself."""
    return unflatten(structure(tree), [change(p, leaf) for p, leaf in leaves_with_path(tree)])
