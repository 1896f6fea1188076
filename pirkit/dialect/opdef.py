"""How an op is declared: one class, with its rules directly below it.

::

    @op
    class Tanh:
        '''Hyperbolic tangent of each element.

        C1: `x` has a floating or complex dtype.
        '''

        name = "pd_op.tanh"
        signature = "x -> out"
        dtypes = dt.FLOATS
        inplace = {"out": "x"}

    infer_meta(Tanh)(unchanged)
    reference(Tanh)(np.tanh)

    @samples(Tanh)
    def _(s: SampleMaker) -> Iterator[Sample]:
        yield s(s.tensor(2, 3))

``@op`` turns the class into an :class:`OpDef`. Rules are tables filled by decorators; a table
takes an op or its name, so a package outside pirkit can add any rule to any op.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.diag.errors import ConstraintError, UnsupportedError
from pirkit.diag.gc_pause import imported, is_imported
from pirkit.diag.once import cached_property
from pirkit.diag.plugin_additions import Origin, is_again, note_addition
from pirkit.diag.plugins import loaded, plugins
from pirkit.dialect.kinds import ELEMENTWISE, KINDS, SINK, SOURCE, TRAITS, UNSTATED
from pirkit.dialect.op_index import homes, load_families, load_home
from pirkit.dialect.shapes import elementwise_meta
from pirkit.dialect.signature import Attr, Operand, Result, Signature, parse_signature
from pirkit.runtime.dtype import DType

F = TypeVar("F", bound=Callable[..., Any])

PURE: Final = "pure"
RANDOM: Final = "random"
IO: Final = "io"
WRITE: Final = "write"
EFFECTS: Final = (PURE, RANDOM, IO, WRITE)


class OpDef(Struct, frozen=True, eq=False, dict=True):
    """Everything static that is known about one op.

    ``inplace`` maps a result to the operand whose storage it takes; an op whose name does not end
    in ``_`` then also has a twin that does (``relu_``) and that writes. ``views`` maps a result to
    the operand whose storage it shares without writing. ``effects`` is ``pure``, ``random``
    (draws from a generator), ``io`` (visible outside the program) or ``write``. ``reads_meta_only``
    names operands of which only shape and dtype are used (Paddle's ``no_need_buffer``),
    ``no_gradient`` floating operands through which, as in Paddle, no gradient flows: labels.
    ``skippable`` names results that kernels do not compute where nothing reads them.
    ``dtypes`` are the element types of the first tensor operand that pirkit computes,
    ``operand_dtypes`` those of further operands that differ from them (`element_types.py`), and
    ``same_dtype`` names operands that have one element type.

    ``kind`` is one of :data:`pirkit.dialect.kinds.KINDS`, by default that of the family's module
    (its ``KIND``); ``traits`` are among :data:`pirkit.dialect.kinds.TRAITS`. ``cost`` is what an
    element of an elementwise op takes, in additions; 0 means that computing the result is as quick
    as reading it. ``library_ns`` is what numpy's kernel takes longer than native code, in ns per
    element: by dtype of the first operand, or by a case of `passes/cost_model.py`.
    ``combiner`` says how a reduction combines elements (sum, prod, max or min), if reductions of
    reductions of parts are reductions of the whole; ``extremum`` (max or min) is what a reduction
    to a position looks for. ``pure_form`` names the op that computes what a writing op writes, if
    that has another name and does not read what it overwrites. ``host_name`` is the attribute that
    holds the name of a value for the host, of ops that exchange values with it.
    """

    name: str
    doc: str
    signature_text: str
    dtypes: tuple[DType, ...] = ()
    operand_dtypes: Mapping[str, tuple[DType, ...]] = field(
        default_factory=dict[str, tuple[DType, ...]]
    )
    same_dtype: tuple[str, ...] = ()
    inplace: Mapping[str, str] = field(default_factory=dict[str, str])
    views: Mapping[str, str] = field(default_factory=dict[str, str])
    effects: str = PURE
    reads_meta_only: tuple[str, ...] = ()
    no_gradient: tuple[str, ...] = ()
    skippable: tuple[str, ...] = ()
    domain: tuple[float, float] = (-2.0, 2.0)
    """Interval from which samples of the first tensor are drawn."""
    kind: str = UNSTATED
    cost: int = 1
    traits: frozenset[str] = frozenset()
    library_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    combiner: str = ""
    extremum: str = ""
    pure_form: str = ""
    host_name: str = ""
    family: str = ""
    pure: OpDef | None = None
    """For an in-place twin: its pure op."""

    @cached_property
    def signature(self) -> Signature:
        return parse_signature(self.signature_text)

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.signature.operands

    @property
    def attrs(self) -> tuple[Attr, ...]:
        return self.signature.attrs

    @property
    def results(self) -> tuple[Result, ...]:
        return self.signature.results

    @cached_property
    def takes_tensors_alone(self) -> bool:
        """True if no operand may be an attribute, and none is variadic."""
        return not any(o.variadic or o.kind is not None for o in self.operands)

    @property
    def base(self) -> OpDef:
        """The op that holds the rules: itself, or the pure op of an in-place twin."""
        return self.pure or self

    @property
    def writes(self) -> bool:
        """True if running the op changes the storage of an operand."""
        return bool(self.inplace) and self.name.endswith("_")

    @cached_property
    def makes_new_storage(self) -> bool:
        """True if running the op writes no operand, and its results alias none and are no names."""
        return self.name not in _ALIASING and not (
            self.views or self.writes or {SOURCE, SINK} & self.traits
        )

    @property
    def dialect(self) -> str:
        return self.name.partition(".")[0]

    @cached_property
    def attr_kinds(self) -> Mapping[str, str]:
        """Kind of every attribute the op may carry, those that may be operands included."""
        kinds = {o.name: o.kind for o in self.operands if o.kind is not None}
        kinds.update({a.name: a.kind for a in self.attrs})
        return kinds

    def __repr__(self) -> str:
        return f"OpDef({self.name})"


_ALIASING: Final = frozenset(
    {"pir.combine", "pir.split", "pir.slice", "pir.yield", "pd_op.if", "pd_op.while"}
)
"""Ops whose results, or those of the op around them, have the storage of operands."""

PLUGINS: Final = "pirkit.ops"
"""Entry point group: modules of other packages that declare ops, and rules, when imported."""

OPS: Final[dict[str, OpDef]] = {}
"""Every declared op by its full name, in-place twins included."""
_ORIGINS: Final[dict[str, Origin]] = {}


def op(cls: type) -> OpDef:
    """Declare an op.

    Raises ValueError at import for a second declaration of the same name and for unknown fields.
    """
    optional = (
        "dtypes",
        "operand_dtypes",
        "same_dtype",
        "inplace",
        "views",
        "effects",
        "reads_meta_only",
        "no_gradient",
        "skippable",
        "domain",
        "cost",
        "library_ns",
        "combiner",
        "extremum",
        "pure_form",
        "host_name",
    )
    fields = ("name", "signature", "kind", "traits", *optional)
    for wrong in (k for k in vars(cls) if not k.startswith("__") and k not in fields):
        near = difflib.get_close_matches(wrong, fields, n=1)
        hint = f": did you mean `{near[0]}`?" if near else f"; it may have {', '.join(fields)}"
        raise ValueError(f"an op has no field `{wrong}`{hint}")
    data = {k: getattr(cls, k) for k in optional if hasattr(cls, k)}
    family_kind = getattr(sys.modules[cls.__module__], "KIND", UNSTATED)
    record: Any = cls
    definition = OpDef(
        name=record.name,
        doc=_documented(cls),
        signature_text=record.signature,
        family=cls.__module__.rpartition(".")[2],
        kind=getattr(cls, "kind", family_kind),
        traits=frozenset(getattr(cls, "traits", ())),
        **data,
    )
    return declare(definition)


def _documented(cls: type) -> str:
    """The docstring; a class that lists no constraint C1, C2... has those of its base class."""
    found = [inspect.cleandoc(c.__doc__ or "") for c in cls.__mro__[:-1]]
    constraints = next((d[d.index("C1:") :] for d in found if "C1:" in d), "")
    return found[0] if "C1:" in found[0] else f"{found[0]}\n\n{constraints}".strip()


def declare(definition: OpDef) -> OpDef:
    """Enter a definition, and its in-place twin if it has one, into the table."""
    _enter(definition)
    if definition.inplace and not definition.name.endswith("_"):
        twin = replace(
            definition, name=f"{definition.name}_", pure=definition,
            doc=f"In-place form of `{definition.name}`.\n\n{definition.doc}",
            effects=WRITE if definition.effects == PURE else definition.effects,
            skippable=(), traits=frozenset(), library_ns={}, combiner="", extremum="",
            pure_form="", host_name="",
        )  # fmt: skip
        _enter(twin)
    return definition


def _enter(definition: OpDef) -> None:
    origin = note_addition(__name__)
    if definition.name in OPS and not is_again(_ORIGINS.get(definition.name), origin):
        raise ValueError(f"op {definition.name} is declared twice")
    if definition.effects not in EFFECTS:
        raise ValueError(f"{definition.name}: effects {definition.effects!r} not in {EFFECTS}")
    if definition.kind not in KINDS:
        raise ValueError(f"{definition.name}: kind {definition.kind!r} not in {sorted(KINDS)}")
    if not definition.traits <= TRAITS.keys():
        unknown = sorted(definition.traits - TRAITS.keys())
        raise ValueError(f"{definition.name}: traits {unknown} not in {sorted(TRAITS)}")
    OPS[definition.name] = definition
    _ORIGINS[definition.name] = origin


def lookup(name: str) -> OpDef:
    """The op of that full name.

    Raises UnsupportedError, with the nearest declared names, if there is none.
    """
    definition = find(name)
    if definition is None:
        raise unknown_op(name)
    return definition


def unknown_op(name: str) -> UnsupportedError:
    """The error for a name that no op has, with the nearest declared names."""
    is_full = "." in name  # otherwise a foreign word, or an op without its dialect
    full, cutoff = (name, 0.6) if is_full else (f"pd_op.{name}", 0.9)
    near = difflib.get_close_matches(full, OPS, n=3, cutoff=cutoff)
    hint = f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else None
    return UnsupportedError(
        f"unknown op `{name}`",
        code="PK0401",
        help=hint or "`pirkit-opt --list-ops` prints every op that pirkit knows",
    )


def find(name: str) -> OpDef | None:
    """The op of that full name, or None."""
    load_home(name)
    definition = OPS.get(name)
    if definition is None:
        load_plugins()
        definition = OPS.get(name)
    return definition


def dialect_names() -> frozenset[str]:
    """The dialects of all ops, those of plug-ins too."""
    load_plugins()
    own = ("builtin", "cf", "map_expr", "pd_op", "pir")
    return frozenset({name.partition(".")[0] for name in OPS}.union(own))


def has_trait(name: str, trait: str) -> bool:
    """True if there is an op of that full name and its record has the trait."""
    definition = find(name)
    return definition is not None and trait in definition.traits


def all_ops() -> Iterable[OpDef]:
    """Every declared op, in declaration order, in-place twins included."""
    load_plugins()
    places = {name: place for place, name in enumerate(homes())}
    return sorted(OPS.values(), key=lambda d: places.get(d.name, len(places)))


class _Loaded:
    """Which imports are complete: a thread that needs an incomplete one waits for it."""

    plugins = False


def load_plugins(*, families: bool = True) -> None:
    """Import the packages that declare plug-ins in their entry points, after pirkit's own ops.

    Without ``families`` these are not imported if no package declares any: that takes 50 ms.
    """
    if families or plugins(PLUGINS):
        load_families()
    if not _Loaded.plugins:
        entries = plugins(PLUGINS)
        for entry in entries:
            loaded(entry)
        _Loaded.plugins = all(is_imported(entry.module) for entry in entries)


class RuleTable:
    """Rules of one concern (``infer_meta``, ``reference``...), by op.

    Used as a decorator: ``@reference(Relu)`` or ``infer_meta(Sin, Cos)(unchanged)``. In-place twins
    share the rules of their pure op. Raises ValueError for a second rule unless ``override``.
    """

    def __init__(self, concern: str, package: str | None = None) -> None:
        self.concern = concern
        self._package = package
        """The package that holds the rules, if not the families: imported at the first lookup."""
        self._rules: dict[str, Callable[..., Any]] = {}
        self.otherwise: Callable[[OpDef], Callable[..., Any] | None] = lambda _: None
        """The rule of an op that has none here."""
        self.origins: dict[str, Origin] = {}

    def __call__(self, *ops: OpDef | str, override: bool = False) -> Callable[[F], F]:
        def register(rule: F) -> F:
            if override:  # the rule that is replaced has to be loaded
                self._load_home()
            for which in ops:
                name = which if isinstance(which, str) else which.name
                if name not in OPS:
                    load_home(name)
                if name not in OPS:
                    load_families()
                if name not in OPS:
                    raise ValueError(f"{self.concern} rule for undeclared op {name!r}")
                origin = note_addition(__name__)
                known = name in self._rules and not is_again(self.origins.get(name), origin)
                if known and not override:
                    raise ValueError(f"second {self.concern} rule for {name}")
                self._rules[name] = rule
                self.origins[name] = origin
            return rule

        return register

    def _load_home(self) -> None:
        package = self._package
        if package is not None:
            imported(package)  # waits if another thread imports it
            if is_imported(package):  # it is not where the home itself asks
                self._package = None

    def get(self, definition: OpDef) -> Callable[..., Any] | None:
        """The rule of an op or of its pure twin, or None."""
        if self._package is not None:
            self._load_home()
        base = definition.base
        own = self._rules.get(definition.name) or self._rules.get(base.name)
        return own or self.otherwise(base)

    def of(self, definition: OpDef) -> Callable[..., Any]:
        """The rule of an op; raises UnsupportedError, naming op and concern, if there is none."""
        rule = self.get(definition)
        if rule is None:
            raise UnsupportedError(
                f"`{definition.name}` has no {self.concern} rule",
                code="PK0402",
                help=f"add one with `@{self.concern}({definition.name!r})`",
            )
        return rule


class _MetaRules(RuleTable):
    """Elementwise ops without a rule have the shape to which their operands broadcast."""

    def get(self, definition: OpDef) -> Callable[..., Any] | None:
        found = super().get(definition)
        is_plain = definition.kind == ELEMENTWISE and len(definition.results) == 1
        return elementwise_meta if found is None and is_plain else found


infer_meta: Final = _MetaRules("infer_meta")
"""``rule(*operand_metas, **attributes) -> meta | tuple of metas``; None for an absent result.

Tensor operands come as TensorMeta, VecMeta or None, by position. Attributes, and operands that
declare a kind, come by keyword as Python values: an ``intarray`` is a tuple whose unknown elements
are None, or None if not even its length is known; a scalar is a number or None if unknown.
"""

paddle_meta: Final = RuleTable("paddle_meta")
"""As ``infer_meta``, for the ops whose result types Paddle states wrongly in its programs.

Paddle's kernels give the type of ``infer_meta``; a program that states Paddle's is accepted too,
so that it can be read and written back as it is.
"""

reference: Final = RuleTable("reference")
"""``rule(*arrays, **attributes) -> array | tuple of arrays``: the definition of the op in numpy.

Same calling convention with numpy arrays, lists of arrays for vec operands, and all attribute
values known. Never writes into its arguments: an in-place op returns the new content. May return
views of its arguments.
"""

draws: Final = RuleTable("draws")
"""``rule(attributes) -> bool``: whether a call of a random op draws; without a rule it does.

Draws are numbered, so a call that draws nothing takes no number: the calls after it draw the same
numbers whether it is decomposed or not.
"""


def may_draw(definition: OpDef, attrs: Mapping[str, Any]) -> bool:
    """True if a call with these attributes draws random numbers."""
    rule = draws.get(definition)
    return definition.effects == RANDOM and (rule is None or rule(attrs))


_RULES: Final = "pirkit.dialect.rules"

decompose: Final = RuleTable("decompose", _RULES)
"""``rule(call) -> value | tuple of values``: the op as a composition of simpler ops.

Returns a value for each result slot that is used, with the declared type.
"""

vjp: Final = RuleTable("vjp", _RULES)
"""``rule(call, *cotangents) -> cotangent | tuple of cotangents``: reverse mode.

Takes the cotangent of each result slot (None for zero) and returns one for each tensor operand slot
(None for zero; a list for a list). It emits ops of the dialect, so it can be differentiated again.
"""

jet: Final = RuleTable("jet", _RULES)
"""``rule(call, *series) -> series | tuple of series``: Taylor mode.

A series is a list of the Taylor coefficients 1, 2... of a value along a direction, None for zero.
"""

local_derivatives: Final = RuleTable("local_derivatives", _RULES)
"""``rule(call, x, y) -> series``: the derivative of a function of one operand along a curve.

Takes the coefficients 0, 1... of operand and result, and returns as many. With it a reverse sweep
differentiates the series of a function as one unit.
"""

index_maps: Final = RuleTable("index_maps", f"{_RULES}.index_maps")
"""``rule(call) -> value | tuple of values | Opaque``: how each result element is computed.

Takes a :class:`pirkit.dialect.map_expr.call.MapCall` and returns an expression tree, or a
reduction, for each result; or the reason why there is none. Fusion is based on it.
"""

complex_parts: Final = RuleTable("complex_parts", f"{_RULES}.complex_parts")
"""``rule(call, *parts) -> parts | value``: a complex op in terms of real and imaginary parts.

Takes ``Parts`` for each complex operand and the values of others, and returns ``Parts`` for a
complex result; NotImplemented for a call that it does not cover.
"""

samples: Final = RuleTable("samples")
"""``rule(s: SampleMaker) -> Iterator[Sample]``: legal calls, for the generated tests."""

bad_samples: Final = RuleTable("bad_samples")
"""``rule(s: SampleMaker) -> Iterator[tuple[str, Sample]]``: illegal calls, each with the constraint
(``"C1"``) of the docstring that refuses it."""


def require(condition: bool, constraint: str, message: str, *, help: str | None = None) -> None:
    """Raise ConstraintError unless ``condition`` holds. ``constraint`` is ``C1``, ``C2``..."""
    if not condition:
        raise ConstraintError(constraint, message, help=help)


def table_entries() -> Iterator[tuple[str, str]]:
    """The name of each op, with its module, and with those of the rules beside the families."""
    load_families()
    families = (infer_meta, paddle_meta, reference, draws, samples, bad_samples)
    for origins in (_ORIGINS, *(table.origins for table in families)):
        yield from ((name, origin["__name__"]) for name, origin in origins.items())
