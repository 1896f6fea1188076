"""Names everything that both programs of a split take and return.

Each storage has one name, however many values alias it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from pirkit.diag.errors import ArgumentError
from pirkit.dialect.kinds import OUTPUT
from pirkit.dialect.operation import declares, span_of
from pirkit.dialect.types import VecType
from pirkit.split.backward_reads import Demand
from pirkit.split.joint import Joint, source_of, stored_values
from pirkit.split.split_result import Names, SplitNames
from pirkit.split.storage_versions import Contents, Need


class Labels(Struct, frozen=True):
    """The names of everything that both programs take and return."""

    names: SplitNames
    returns: tuple[tuple[str, int], ...]
    """See `SplitParts.returns`."""
    sources: dict[str, SSAValue]
    """The inputs and parameters of the forward program."""
    outputs: dict[str, SSAValue]
    """Name -> output of the forward program; an input or parameter has its own name."""
    middles: dict[Need, tuple[str, ...]]
    """Versions saved for the backward alone, in order of definition. A list has a name for each
    element; a value that is stored in an input or parameter has its name."""
    taken: dict[Need, tuple[str, ...]]
    """All versions that the backward takes."""
    seeds: dict[str, SSAValue]
    """The gradients of outputs that the backward takes."""
    gradients: dict[str, SSAValue | Need]
    """Name -> gradient that the backward program returns."""

    def arguments(self) -> dict[str, Attribute]:
        """The arguments of the backward program with types: outputs, sources, middles, seeds."""
        types = {n: t for need, names in self.taken.items() for n, t in _typed(need, names)}
        first = (*self.names.bo, *self.names.bx, *self.names.bp, *self.names.bm)
        order = dict.fromkeys(name for name in first if name is not None)
        found = {name: types[name] for name in order}
        return found | {name: value.type for name, value in self.seeds.items()}


def labels_of(
    joint: Joint, contents: Contents, demand: Demand, taken: Iterable[Need], data: frozenset[Need]
) -> Labels:
    """Name everything that the backward takes; ``data`` are the versions whose data it reads.

    Raises ArgumentError (PK0701) if one storage is two outputs with different gradients.
    """
    sources = {**joint.inputs, **joint.params}
    named = {value: name for name, value in sources.items()}
    outputs, returns = _outputs(joint, named)
    fo = tuple(outputs)
    order = {value: index for index, value in enumerate(contents.versions.made)}
    taken = sorted(taken, key=lambda need: order[need.value])
    known = {value: (name,) for name, value in reversed(outputs.items())}
    stored = stored_values(joint)
    labels: dict[Need, tuple[str, ...]] = {}
    middles: dict[Need, tuple[str, ...]] = {}
    fresh = _Fresh({*sources, *joint.outputs, *joint.seeds})
    for need in taken:
        source = None if need.stale else source_of(need.value) or stored.get(need.value)
        if source is not None:
            labels[need] = (named[source],)
            if source is not need.value:
                middles[need] = labels[need]
                fresh.count += 1
        elif not need.stale and need.value in known:
            labels[need] = known[need.value]
        else:
            labels[need] = middles[need] = fresh.several(need.value.type)
    used = {name for names in labels.values() for name in names}
    fm = tuple([name for names in middles.values() for name in names])
    seeds = {name: value for name, value in joint.seeds.items() if _is_used(joint, value)}
    gradients, given = _gradients(joint, demand, labels)
    names = SplitNames(
        fx=tuple(joint.inputs),
        fp=tuple(joint.params),
        fm=fm,
        fo=fo,
        bx=_among(joint.inputs, used),
        bp=_among(joint.params, used),
        bm=fm,
        bo=_among(fo, used),
        bo_g=_seeds(joint, fo, returns, seeds),
        bx_g=tuple([given.get(name) for name in joint.inputs]),
        bp_g=tuple([given.get(name) for name in joint.params]),
        no_need_buffers=_shapes_only(contents, labels, data),
    )
    return Labels(names, returns, sources, outputs, middles, labels, seeds, gradients)


def _outputs(
    joint: Joint, named: dict[SSAValue, str]
) -> tuple[dict[str, SSAValue], tuple[tuple[str, int], ...]]:
    """Name -> value, with each storage once; each output of the program, and its position there."""
    sources = {name: value for value, name in named.items()}
    found: dict[SSAValue, str] = {}
    returns: list[tuple[str, int]] = []
    for name, value in joint.outputs.items():
        held = joint.roles.storage.get(name)
        source = source_of(value) if held is None else sources[held]
        value = value if source is None else source
        label = found.setdefault(value, named.get(value, name))
        returns.append((name, list(found.values()).index(label)))
    return {name: value for value, name in found.items()}, tuple(returns)


def _seeds(
    joint: Joint,
    fo: tuple[str, ...],
    returns: tuple[tuple[str, int], ...],
    used: dict[str, SSAValue],
) -> Names:
    found: list[str | None] = [None] * len(fo)
    for output, position in returns:
        seed = joint.roles.seeds.get(output)
        if seed not in used:
            continue
        if found[position] not in (None, seed):
            raise ArgumentError(
                f"output `{output}` is `{fo[position]}`, but has another gradient",
                span=span_of(joint.program),
                help="one storage has one gradient: give both outputs the same",
            )
        found[position] = seed
    return tuple(found)


def _gradients(
    joint: Joint, demand: Demand, labels: dict[Need, tuple[str, ...]]
) -> tuple[dict[str, SSAValue | Need], dict[str, str]]:
    """The results of the backward program under distinct names, and the name for each source.

    A gradient that is also an argument of the backward program has the name of the argument.
    """
    seeds = {value: name for name, value in joint.seeds.items()}
    found: dict[SSAValue | Need, str] = {}
    given: dict[str, str] = {}
    for source, value in joint.gradients.items():
        need = demand.given.get(source)
        name = joint.roles.gradients[source]
        if need is not None and len(labels.get(need, ())) == 1:
            name = labels[need][0]
        given[source] = found.setdefault(need or value, seeds.get(value, name))
    return {name: value for value, name in found.items()}, given


def _shapes_only(
    contents: Contents, labels: dict[Need, tuple[str, ...]], data: frozenset[Need]
) -> tuple[str, ...]:
    """Names of the storages whose data the backward does not read, through any alias."""
    classes = contents.versions.classes
    read = {e for need in data if not need.stale for e in classes.of(need.value)}
    needed = {name for need in data for name in labels.get(need, ())}
    found = [
        name
        for need, names in labels.items()
        if need not in data and not read.intersection(classes.of(need.value))
        for name in names
        if name not in needed
    ]
    return tuple(dict.fromkeys(found))


def _among(names: Iterable[str], used: set[str]) -> Names:
    return tuple([name if name in used else None for name in names])


def _is_used(joint: Joint, seed: SSAValue) -> bool:
    """True if the backward reads or returns the gradient of an output."""
    returned = any(value is seed for value in joint.gradients.values())
    return returned or any(not declares(use.operation, OUTPUT) for use in seed.uses)


def _typed(need: Need, names: tuple[str, ...]) -> list[tuple[str, Attribute]]:
    type_ = need.value.type
    items = tuple(type_.items) if isinstance(type_, VecType) else (type_,)
    return list(zip(names, items, strict=True))


class _Fresh(Struct):
    """Allocates names for middles: ``middle_0``, ``middle_1``, in Paddle's numbering."""

    used: set[str]
    count: int = 0

    def several(self, type_: Attribute) -> tuple[str, ...]:
        """One name for a tensor, or one for each element of a list."""
        size = len(type_.items) if isinstance(type_, VecType) else 1
        return tuple([self.one() for _ in range(size)])

    def one(self) -> str:
        name = f"middle_{self.count}"
        self.count += 1
        while name in self.used:
            name += "_"
        return name
