"""From a graph of Dynamo to a functional graph of ATen ops.

The graph is run on fake tensors, which have no data, and recorded by `make_fx` below autograd:
torch's functionalization turns in-place operations and views into pure ones, composite ops become
their parts, and torch's decompositions replace ops for which pirkit has no rule. `Captured` also
says what the graph writes into its inputs, and which results share memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from pirkit.diag.errors import InternalError, UnsupportedError
from pirkit.torch.attention import Composed
from pirkit.torch.capture_outputs import outputs_of, storage_of
from pirkit.torch.captured_graph import CUT, SOURCE, Captured, Result
from pirkit.torch.custom_derivative import APPLY, apply
from pirkit.torch.decompositions import decompositions
from pirkit.torch.libtorch import (
    flex_attention,
    functional_tensor,
    functional_utils,
    fx,
    grad_mode,
    guards,
    listed,
    proxy_tensor,
    python_dispatch,
    returned_by,
    symbolic_shapes,
    torch,
)
from pirkit.torch.node_error import NodeError
from pirkit.torch.quick_recording import QuickProxies, as_functional
from pirkit.torch.recorder import Recorder


def fakes_of(inputs: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    """A fake mode, the inputs as fake tensors of this mode, and the same inputs detached.

    The mode is Dynamo's if an input is fake already. Inputs that are no tensors stay as they are.
    """
    mode = guards.detect_fake_mode(inputs)
    context = guards.TracingContext.try_get()
    if mode is None:
        fake_mode = torch._subclasses.FakeTensorMode
        mode = fake_mode(shape_env=symbolic_shapes.ShapeEnv(), allow_non_fake_inputs=True)

    def fake(given: Any) -> tuple[Any, Any]:
        if not isinstance(given, torch.Tensor):
            return given, given
        if isinstance(given, torch._subclasses.FakeTensor):
            return given, given.detach()
        known = context.tensor_to_context.get(given) if context is not None else None
        if _is_plain(given, known):
            # A model has hundreds of these, and `from_tensor` takes a millisecond for each.
            meta = torch.empty_strided(
                given.shape, given.stride(), dtype=given.dtype, device="meta"
            )
            made, bare = (
                torch._subclasses.FakeTensor(mode, meta, given.device, requires_grad=wanted)
                for wanted in (given.requires_grad, False)
            )
            return made, bare
        if known is not None:
            # With its source the tensor gets the symbols that Dynamo has for it, and no others.
            made = mode.from_tensor(given, symbolic_context=known, source=known.tensor_source)
        else:
            made = mode.from_tensor(given, static_shapes=True)
        return made, made.detach()

    pairs = [*map(fake, inputs)]
    return mode, [a for a, _ in pairs], [a for _, a in pairs]


def _is_plain(given: Any, context: Any) -> bool:
    """Whether a tensor is a parameter of static sizes, contiguous, that fills its storage."""
    return (
        type(given) is torch.nn.Parameter
        and given.layout is torch.strided
        and given.is_cpu
        and given.is_contiguous()
        and given.untyped_storage().nbytes() == given.numel() * given.element_size()
        and given.numel() > 0
        and all(d is _STATIC for d in getattr(context, "dynamic_sizes", ()))
    )


_STATIC: Final[Any] = symbolic_shapes.DimDynamic.STATIC


def capture(module: Any, inputs: Sequence[Any]) -> Captured:
    """Record what a graph module of Dynamo does with inputs like these.

    Raises NodeError (PK0403) for a graph that changes the shape or storage of an input, and for a
    node that torch cannot run on tensors without data.
    """
    held = _attributes(module)
    # Inputs require gradients during the capture only if torch's engine runs inside of the graph.
    differentiates = any(n.target is torch.autograd.grad for n in module.graph.nodes)
    mode, fakes, bare = fakes_of([*inputs, *held.values()])
    found: dict[str, Any] = {}

    def functional(*given: Any) -> list[Any]:
        """Runs the graph on functional tensors; gives the outputs of the graph to be recorded."""
        # The recorder functionalizes in Python, so the dispatch key must not do it a second time.
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
        recorder = Recorder(learns=torch.is_grad_enabled(), differentiates=differentiates)
        quick = QuickProxies(proxy_tensor.get_proxy_mode())
        with torch._C._ExcludeDispatchKeyGuard(keys), quick, recorder:
            if differentiates:
                wrapped = [functional_utils.to_fun(a) for a in given]
                for a, fake in zip(wrapped, fakes, strict=True):
                    if isinstance(a, torch.Tensor) and fake.requires_grad:
                        a.requires_grad_()
            else:
                wrapped = [as_functional(a, recorder) for a in given]
            with torch.set_grad_enabled(torch.is_grad_enabled()), Composed():
                own = dict(zip(held, wrapped[len(inputs) :], strict=True))
                runner = _Runner(module, own, found, recorder)
                returned = runner.run(*wrapped[: len(inputs)])
            found["node"] = None
            return outputs_of(given, wrapped, listed(returned), recorder.first, found)

    table = decompositions()
    # Higher-order ops look modes up by exact class, so the subclasses need entries of their own.
    for op in torch._ops._higher_order_ops.values():
        rules = op.python_key_table
        for own in (Recorder, QuickProxies):
            if own.__base__ in rules:
                rules[own] = rules[own.__base__]
    with mode, python_dispatch.enable_python_dispatcher(), _without_onednn(), numbers_of(mode):
        depth = torch._C._functorch.get_dynamic_layer_stack_depth()
        hooks_are_on = torch._C._autograd._saved_tensors_hooks_is_enabled()
        try:
            recorded = proxy_tensor.make_fx(functional, decomposition_table=table)(*bare)
        except InternalError:
            raise
        except Exception as error:  # any error of the model: reported with its node
            # Capture may have stopped inside of transforms of `torch.func`: leave them.
            torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
            if hooks_are_on:
                torch._C._autograd._saved_tensors_hooks_enable()
            raise NodeError(found.get("node"), error) from error
    _erase_assertions(recorded.graph, len(fakes))
    recorded.graph.eliminate_dead_code()
    nodes = returned_by(recorded.graph)
    results: list[Result] = found["results"]
    # Results can be views of one output: it requires a gradient if one of them does.
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
    """Erase assertions on data, and the tokens that order them: inputs after the first ones."""
    tokens = [n for n in graph.nodes if n.op == "placeholder"][inputs:]
    for node in reversed(list(graph.nodes)):
        sources = [node, *node.all_input_nodes]
        if not node.users and any("with_effects" in str(n.target) for n in sources):
            graph.erase_node(node)
    for token in tokens:
        graph.erase_node(token)


def _requirements(module: Any, count: int) -> list[bool | None]:
    """Whether each of ``count`` results of a graph of Dynamo requires a gradient.

    None for a result that is no tensor, and for all results if the graph returns another number.
    """
    returned = returned_by(module.graph)
    if len(returned) != count:
        return [None] * count
    values: list[Any] = [getattr(n, "meta", {}).get("example_value") for n in returned]
    return [v.requires_grad if isinstance(v, torch.Tensor) else None for v in values]


def functional_graph(module: Any, examples: Sequence[Any]) -> Captured:
    """The record of a graph that is functional already, as AOTAutograd and `torch.export` give.

    ``examples`` are its inputs. Results are outputs or inputs; nothing is written.
    """
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
    """Within it, numbers that depend on data (`item`) are symbols, which the program computes."""
    before, mode.allow_scalar_outputs = mode.allow_scalar_outputs, True
    try:
        with mode.shape_env.ignore_fresh_unbacked_symbols():
            yield
    finally:
        mode.allow_scalar_outputs = before


@contextmanager
def _without_onednn() -> Generator[None]:
    """Turn oneDNN off, for which torch would choose ops that have no decomposition."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


BODIES: Final[Mapping[Any, int]] = {
    torch.ops.higher_order.tag_activation_checkpoint: 1,
    torch.ops.higher_order.invoke_subgraph: 2,
    torch.ops.higher_order.wrap: 1,
}
"""Higher-order ops that call a subgraph, which is their first argument.

The number is the position of the first argument of the subgraph.
"""


class _Inner(fx.Interpreter):  # pyright: ignore[reportUntypedBaseClass]
    """Runs a graph and its subgraphs; a `torch.autograd.Function` keeps its own derivative."""

    def __init__(self, module: Any, recorder: Recorder) -> None:
        fx.Interpreter.__init__(self, module)
        self.recorder = recorder

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is APPLY:
            forward, backward, *rest = args
            if any(isinstance(a, torch.Tensor) and a.requires_grad for a in rest):
                raise UnsupportedError(
                    "a function with its own derivative in a graph that asks for gradients",
                    code="PK0403", help="ask for the gradients outside of the compiled function",
                )  # fmt: skip
            before, self.recorder.own = self.recorder.own, True
            try:
                return apply(self._run_graph, forward, backward, rest, kwargs)
            finally:
                self.recorder.own = before
        if target in BODIES:
            return _Inner(args[0], self.recorder).run(*args[BODIES[target] :])
        if target is grad_mode._enter_inference_mode:
            # Entering the mode would overwrite dispatch state of the thread that recording needs.
            before = torch.is_grad_enabled()
            torch._C._set_grad_enabled(before and not args[0])
            return before
        if target is grad_mode._exit_inference_mode:
            return torch._C._set_grad_enabled(args[0])
        if target is torch.ops.higher_order.flex_attention:
            return flex_attention.sdpa_dense(*args, **kwargs)  # the score function under `vmap`
        return fx.Interpreter.call_function(self, target, args, kwargs)

    def _run_graph(self, graph: Any, *args: Any) -> Any:
        """Run the graph of a function's forward or backward; a grad mode set there ends there."""
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            return _Inner(graph, self.recorder).run(*args)


class _Runner(_Inner):
    """Runs a graph of Dynamo, and notes in the meta of each recorded node where it comes from.

    The notes are the name of Dynamo's node (SOURCE), its Python stack, and whether gradients stop
    (CUT).
    """

    def __init__(
        self, module: Any, own: dict[str, Any], found: dict[str, Any], recorder: Recorder
    ) -> None:  # fmt: skip
        _Inner.__init__(self, module, recorder)
        self.found = found
        """Its entry ``node`` is the name of the node that runs, for error messages."""
        self.own = own
        """The tensors that the module holds, by name, as functional tensors."""

    def get_attr(self, target: str, args: Any, kwargs: Any) -> Any:
        return (
            self.own[target]
            if target in self.own
            else fx.Interpreter.get_attr(self, target, args, kwargs)
        )

    def run_node(self, n: Any) -> Any:
        tracer = proxy_tensor.get_proxy_mode().tracer
        before = next(iter(reversed(tracer.graph.nodes)), None)
        recorder, detaches = self.recorder, _detaches(n)
        self.found["node"] = n.name if n.op.startswith("call_") else None
        if n.op == "output":
            recorder.stops = False
            recorder.read(self._tensors(m for m in n.all_input_nodes if m.op != "placeholder"))
        else:
            recorder.stops = recorder.learns and (not torch.is_grad_enabled() or detaches)
        result: Any = fx.Interpreter.run_node(self, n)
        for value in listed(result):
            if isinstance(value, functional_tensor.FunctionalTensor):
                recorder.first.setdefault(storage_of(value), value)
        if detaches:
            recorder.detach(listed(result), list(self._tensors(n.all_input_nodes)))
        for node in reversed(tracer.graph.nodes):
            if node is before:
                break
            node.meta.setdefault("stack_trace", None)
            node.meta["stack_trace"] = n.stack_trace or node.meta["stack_trace"]
            node.meta[CUT] = recorder.stops or node.meta.get(CUT, False)
            node.meta[SOURCE] = n.name
        return result

    def _tensors(self, nodes: Iterable[Any]) -> Iterable[Any]:
        """The tensors that nodes gave."""
        for node in nodes:
            for value in listed(self.env[node]):
                if isinstance(value, functional_tensor.FunctionalTensor):
                    yield value


_DETACHES: Final = (
    "detach", torch.detach, getattr(torch._C._autograd, "_get_data_attr", torch.detach)
)  # fmt: skip
"""Targets of nodes that detach or read `data`; older versions read `data` by `getattr`."""


def _detaches(node: Any) -> bool:
    return node.target in _DETACHES or (
        node.op == "call_function" and node.target is getattr and node.args[1:2] == ("data",)
    )
