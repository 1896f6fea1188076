"""From a graph of Dynamo to a functional graph of ATen ops.

The graph is run on tensors without data, and recorded below autograd: in-place operations and views
become pure ones (torch's own functionalization), composite ops their parts, and torch's
decompositions replace what pirkit has no rule for. What the graph writes into its inputs, and which
results share memory with which, is kept beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pirkit.diag.errors import InternalError, UnsupportedError
from pirkit.torch.attention import Composed
from pirkit.torch.custom_derivative import APPLY, apply
from pirkit.torch.libtorch import (
    aten,
    decomposition,
    functional_tensor,
    functional_utils,
    fx,
    guards,
    listed,
    proxy_tensor,
    python_dispatch,
    returned_by,
    storage_refs,
    symbolic_shapes,
    torch,
)
from pirkit.torch.node_error import NodeError
from pirkit.torch.rules import RULES

CUT: Final = "pirkit_cut"
"""Mark of a node through which no gradient flows: made under `no_grad`, or by `detach`."""

SOURCE: Final = "pirkit_source"
"""The name of the node of Dynamo's graph that a node comes from."""


@dataclass(frozen=True)
class View:
    """A result that is a view of an input, or of another result: sizes may be symbolic."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any


@dataclass(frozen=True)
class Result:
    """A result of a graph.

    ``kind`` is ``node`` for a computed tensor, ``number`` for the number in one, ``input`` for an
    input as it is after the call, ``constant`` for what is known before. ``at`` is the number of
    the node among the outputs of the graph, or that of the input. ``view`` says which part of the
    input or node it is.
    """

    kind: str
    at: int = 0
    view: View | None = None
    value: Any = None
    detached: bool = False
    """Whether torch says that it requires no gradient, although what it is part of may."""


@dataclass
class Captured:
    """A functional graph, and how its outputs become results and writes.

    Outputs of the graph are first what results need, then the new contents of written inputs.
    """

    graph: Any
    module: Any
    results: list[Result]
    written: list[tuple[int, int]]
    """Numbers of an input and of the output that is its new content."""
    examples: list[Any]
    """The inputs, tensors without data."""
    outputs: list[Any]
    """The nodes of the outputs."""
    learns: list[bool | None] = field(default_factory=list[bool | None])
    """Of each output whether it requires a gradient, None where nobody has said so."""
    attributes: list[Any] = field(default_factory=list[Any])
    """Tensors of the graph module itself, as the last inputs: state that an optimizer writes."""
    parameters: dict[int, str] = field(default_factory=dict[int, str])
    """Inputs that are parameters of the program, by number."""
    source: Any = None
    """The graph module of Dynamo, which torch can run instead."""

    @property
    def placeholders(self) -> list[Any]:
        return [n for n in self.graph.nodes if n.op == "placeholder"]


def fakes_of(inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """A mode for tensors without data, and the inputs in it."""
    mode = guards.detect_fake_mode(inputs)
    context = guards.TracingContext.try_get()
    if mode is None:
        fake_mode = torch._subclasses.FakeTensorMode
        mode = fake_mode(shape_env=symbolic_shapes.ShapeEnv(), allow_non_fake_inputs=True)

    def fake(given: Any) -> Any:
        if not isinstance(given, torch.Tensor) or isinstance(given, torch._subclasses.FakeTensor):
            return given
        known = context.tensor_to_context.get(given) if context is not None else None
        if known is not None:
            return mode.from_tensor(given, symbolic_context=known)
        return mode.from_tensor(given, static_shapes=True)

    return mode, [fake(given) for given in inputs]


def capture(module: Any, inputs: Sequence[Any]) -> Captured:
    """Record what a graph module of Dynamo does with inputs like these.

    Raises NodeError (PK0403) for a graph that changes the shape or storage of an input, and for a
    node that torch cannot run on tensors without data.
    """
    held = _attributes(module)
    mode, fakes = fakes_of([*inputs, *held.values()])
    found: dict[str, Any] = {}

    def functional(*given: Any) -> list[Any]:
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
        with (
            torch._C._ExcludeDispatchKeyGuard(keys),
            functional_tensor.FunctionalTensorMode(_allow_token_discovery=True),
        ):
            wrapped = [functional_utils.to_fun(a) for a in given]
            with torch.set_grad_enabled(torch.is_grad_enabled()), Composed():
                own = dict(zip(held, wrapped[len(inputs) :], strict=True))
                runner = _Runner(module, own, found)
                returned = runner.run(*wrapped[: len(inputs)])
            found["node"] = None
            return _outputs(given, wrapped, listed(returned), runner.first, found)

    table = decompositions()
    with mode, python_dispatch.enable_python_dispatcher(), _without_onednn(), numbers_of(mode):
        bare = [a.detach() if isinstance(a, torch.Tensor) else a for a in fakes]
        depth = torch._C._functorch.get_dynamic_layer_stack_depth()
        try:
            recorded = proxy_tensor.make_fx(functional, decomposition_table=table)(*bare)
        except InternalError:
            raise
        except Exception as error:  # any error of the model: reported with its node
            # Capture may have stopped inside of transforms of `torch.func`: leave them.
            torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
            torch._C._autograd._saved_tensors_hooks_enable()
            raise NodeError(found.get("node"), error) from error
    _erase_assertions(recorded.graph, len(fakes))
    recorded.graph.eliminate_dead_code()
    nodes = returned_by(recorded.graph)
    results: list[Result] = found["results"]
    learns: list[bool | None] = [None] * len(nodes)
    wanted = _requirements(module, len(results))
    for result, wants in zip(results, wanted, strict=True):
        if result.kind == "node" and wants is not None:
            learns[result.at] = bool(learns[result.at]) or wants
    results = [
        replace(r, detached=wants is False and (r.kind == "input" or bool(learns[r.at])))
        if r.kind in ("node", "input")
        else r
        for r, wants in zip(results, wanted, strict=True)
    ]
    return Captured(
        recorded.graph, recorded, results, found["written"], fakes, nodes, learns,
        list(held.values()), source=module,
    )  # fmt: skip


def _attributes(module: Any) -> dict[str, Any]:
    """The tensors that a graph module holds, by the names under which its graph reads them."""
    found: dict[str, Any] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value: Any = module
            for part in node.target.split("."):
                value = getattr(value, part)
            if isinstance(value, torch.Tensor):
                found[node.target] = value
    return found


def _erase_assertions(graph: Any, inputs: int) -> None:
    """Erase assertions on data, and the tokens that order them, which are further inputs."""
    tokens = [n for n in graph.nodes if n.op == "placeholder"][inputs:]
    for node in reversed(list(graph.nodes)):
        sources = [node, *node.all_input_nodes]
        if not node.users and any("with_effects" in str(n.target) for n in sources):
            graph.erase_node(node)
    for token in tokens:
        graph.erase_node(token)


def _requirements(module: Any, count: int) -> list[bool | None]:
    """Of each result of a graph of Dynamo whether it requires a gradient."""
    returned = returned_by(module.graph)
    if len(returned) != count:
        return [None] * count
    values: list[Any] = [getattr(n, "meta", {}).get("example_value") for n in returned]
    return [v.requires_grad if isinstance(v, torch.Tensor) else None for v in values]


def functional_graph(module: Any, examples: Sequence[Any]) -> Captured:
    """A graph that is functional already: what AOTAutograd and `torch.export` give."""
    graph = module.graph
    results: list[Result] = []
    nodes: list[Any] = []
    places = {n: i for i, n in enumerate(n for n in graph.nodes if n.op == "placeholder")}
    for node in returned_by(graph):
        value = node.meta.get("val") if hasattr(node, "meta") else node
        if not isinstance(value, torch.Tensor):
            results.append(Result("constant", value=value))
        elif node in places:
            results.append(Result("input", places[node]))
        else:
            if node not in nodes:
                nodes.append(node)
            results.append(Result("node", nodes.index(node)))
    return Captured(graph, module, results, [], list(examples), nodes)


@contextmanager
def numbers_of(mode: Any) -> Generator[None]:
    """Numbers that depend on data (`item`) are symbols, which the program computes."""
    before, mode.allow_scalar_outputs = mode.allow_scalar_outputs, True
    try:
        with mode.shape_env.ignore_fresh_unbacked_symbols():
            yield
    finally:
        mode.allow_scalar_outputs = before


@contextmanager
def _without_onednn() -> Generator[None]:
    """Without oneDNN torch does not choose ops of its own, which have no parts."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


class _Runner(fx.Interpreter):  # pyright: ignore[reportUntypedBaseClass]
    """Runs a graph of Dynamo, and tells each recorded node where it comes from."""

    def __init__(self, module: Any, own: dict[str, Any], found: dict[str, Any]) -> None:
        fx.Interpreter.__init__(self, module)
        self.found = found
        """Told the node that runs, for errors."""
        self.first: dict[Any, Any] = {}
        """By storage the first tensor in it, of which later ones are views."""
        self.learns = torch.is_grad_enabled()
        """Whether gradients can be asked for: where they cannot, no node has to stop them."""
        self.own = own

    def get_attr(self, target: str, args: Any, kwargs: Any) -> Any:
        return (
            self.own[target]
            if target in self.own
            else fx.Interpreter.get_attr(self, target, args, kwargs)
        )

    def run_node(self, n: Any) -> Any:
        tracer = proxy_tensor.get_proxy_mode().tracer
        before = next(iter(reversed(tracer.graph.nodes)), None)
        is_cut = self.learns and (not torch.is_grad_enabled() or _detaches(n))
        self.found["node"] = n.name if n.op.startswith("call_") else None
        result: Any = fx.Interpreter.run_node(self, n)
        for value in listed(result):
            if isinstance(value, functional_tensor.FunctionalTensor):
                self.first.setdefault(_storage(value), value)
        for node in reversed(tracer.graph.nodes):
            if node is before:
                break
            node.meta.setdefault("stack_trace", None)
            node.meta["stack_trace"] = n.stack_trace or node.meta["stack_trace"]
            node.meta[CUT] = is_cut
            node.meta[SOURCE] = n.name
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is APPLY:
            forward, backward, *rest = args
            return apply(_run_graph, forward, backward, rest, kwargs)
        return fx.Interpreter.call_function(self, target, args, kwargs)


def _run_graph(graph: Any, *args: Any) -> Any:
    """Run a graph in a graph; gradients flow through all of it, whatever modes it sets."""
    with torch.set_grad_enabled(torch.is_grad_enabled()):
        return fx.Interpreter(graph).run(*args)


def _detaches(node: Any) -> bool:
    return node.target in ("detach", torch.detach) or (
        node.op == "call_function" and node.target is getattr and node.args[1:2] == ("data",)
    )


def _outputs(
    given: Sequence[Any], wrapped: list[Any], returned: list[Any], first: dict[Any, Any],
    found: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """The outputs of the functional graph; describes results and writes in ``found``.

    Of results in one storage the first tensor there is an output too, of which they are views.
    """
    is_tensor = [isinstance(a, torch.Tensor) for a in wrapped]
    for before, a in zip(given, wrapped, strict=True):
        if isinstance(a, torch.Tensor) and functional_utils.has_metadata_mutation(
            a, before, check_only_storage_mutation=False
        ):
            raise UnsupportedError(
                "the graph changes the shape or storage of an input in place",
                code="PK0403",
                help="make a new tensor instead of `resize_`, `set_` or `t_` on an argument",
            )
    storages = {
        _storage(a): i
        for i, (a, tensor) in enumerate(zip(wrapped, is_tensor, strict=True))
        if tensor
    }
    results: list[Result] = []
    nodes: list[Any] = []
    held: dict[Any, int] = {}
    numbers: dict[int, int] = {}
    shared = Counter(_storage(t) for t in {id(t): t for t in returned}.values() if _is_tensor(t))
    for value in returned:
        if not isinstance(value, torch.Tensor):
            if symbolic_shapes.free_unbacked_symbols(value):
                results.append(Result("number", len(nodes)))
                nodes.append(functional_utils.to_fun(_tensor_of(value)))
            else:
                results.append(Result("constant", value=value))
            continue
        source = storages.get(_storage(value))
        if source is not None:
            same = value is wrapped[source] or _geometry(value) == _geometry(wrapped[source])
            view = None if same else View(*_geometry(value))
            results.append(Result("input", source, view))
            continue
        if id(value) in numbers:
            results.append(Result("node", numbers[id(value)]))
            continue
        base = held.get(_storage(value))
        whole = first.get(_storage(value))
        if base is None and shared[_storage(value)] > 1 and whole is not None and _is_whole(whole):
            numbers[id(whole)] = held[_storage(value)] = base = len(nodes)
            nodes.append(whole)
            if whole is value:
                results.append(Result("node", base))
                continue
        if base is not None and _is_whole(nodes[base]):
            results.append(Result("node", base, View(*_geometry(value))))
            continue
        numbers[id(value)] = held[_storage(value)] = len(nodes)
        results.append(Result("node", len(nodes)))
        nodes.append(value)
    written = [
        i
        for i, (a, tensor) in enumerate(zip(wrapped, is_tensor, strict=True))
        if tensor and functional_utils.has_data_mutation(a)
    ]
    found["results"] = results
    found["written"] = [(i, len(nodes) + k) for k, i in enumerate(written)]
    outputs = [*nodes, *(wrapped[i] for i in written)]
    for value in outputs:
        functional_utils.sync_functional_tensor(value)
    return [functional_utils.from_fun(value) for value in outputs]


def _is_tensor(given: Any) -> bool:
    return isinstance(given, torch.Tensor)


def _tensor_of(number: Any) -> Any:
    """A number that depends on data as a tensor, in Python's precision."""
    kinds = {torch.SymFloat: torch.float64, torch.SymInt: torch.int64, torch.SymBool: torch.bool}
    return aten.scalar_tensor(number, dtype=kinds[type(number)])


def _storage(tensor: Any) -> Any:
    return storage_refs.StorageWeakRef(tensor.untyped_storage())


def _geometry(tensor: Any) -> tuple[Any, ...]:
    return tuple(tensor.size()), tuple(tensor.stride()), tensor.storage_offset()


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor is all of its storage, in rows, so that views of it can be made again."""
    if any(isinstance(n, torch.SymInt) for n in tensor.size()):
        return False
    size = tensor.numel() * tensor.element_size()
    return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == size


_TABLES: Final[list[dict[Any, Callable[..., Any]]]] = []


def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions of overloads that have no rule."""
    if not _TABLES:
        known = decomposition.core_aten_decompositions()
        more = decomposition.get_decompositions(
            [
                aten._scaled_dot_product_flash_attention_for_cpu,
                aten._native_batch_norm_legit_functional,
                aten.native_dropout_backward,
                aten.rrelu_with_noise_functional,
                aten.multilabel_margin_loss_forward,
                aten.linear_backward,
                aten.elu_backward,
                aten.im2col,
            ]
        )
        table = {op: d for op, d in {**more, **known}.items() if str(op) not in RULES}
        _TABLES.append(table)
    return _TABLES[0]
