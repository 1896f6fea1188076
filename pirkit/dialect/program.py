"""`Program`: a module of programs with its weights, the object that users hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from xdsl.dialects import builtin as mlir
from xdsl.ir import SSAValue

from pirkit.diag.errors import UsageError
from pirkit.diag.html import tree
from pirkit.dialect.map_expr.kernel_op import LAZY_COPIES
from pirkit.dialect.operation import ProgramOp, with_nested
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.runtime.lazy_numpy import Array


@dataclass(repr=False, eq=False)
class Program:
    """A module of programs, with its weights. Two objects are equal only if they are the same one.

    ``str(program)`` is its text; ``program.main`` the first program of the module.
    """

    module: mlir.ModuleOp
    params: dict[str, Array] = field(default_factory=dict[str, Array])
    source: str = "<text>"
    is_export: bool = False
    """Whether it was exported for inference: its weights are constants unless `compile` is told
    otherwise.
    """

    @property
    def programs(self) -> dict[str, ProgramOp]:
        """The programs of the module by name."""
        return {op.symbol: op for op in self.module.ops if isinstance(op, ProgramOp)}

    @property
    def main(self) -> ProgramOp:
        """The first program. Raises UsageError if the module holds none."""
        return self.entry(None)

    def entry(self, name: str | None) -> ProgramOp:
        """The program of that name, or the first one. Raises UsageError if there is none."""
        programs = self.programs
        name = name.removeprefix("@") if name else name
        if name is None and programs:
            return next(iter(programs.values()))
        if name in programs:
            return programs[name]
        raise UsageError(
            f"{self.source} holds no program" + (f" called @{name}" if name else ""),
            help="it holds " + (", ".join(f"@{n}" for n in programs) or "nothing"),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the first program for tensors, or a tuple of outputs.

        Inputs are given by position, in the order of the program, or by name; parameters are
        ``params``, unless they are given by name too. Derivatives go through it:
        ``pirkit.grad(lambda x: net(x).sum())``. Raises ArgumentError (PK0701) for wrong inputs, and
        for a program that updates its parameters.
        """
        calls = import_module("pirkit.frontend.program_calls")  # the room above
        return calls.call_program(self, args, kwargs)

    def show(self, path: str | None = None, *, pipeline: str = "@default") -> str:
        """Write a page of what the passes do to the program and what it runs; gives its file name.

        Without ``path`` the file is a temporary one, and a browser opens it. The program is not
        changed. See `pirkit-opt --report`. Raises UsageError for a bad pipeline.
        """
        command = import_module("pirkit.cli.report.command")  # the highest room
        return command.show_program(self, path, pipeline)

    def copy(self) -> Program:
        """A copy whose module can be changed without changing this one."""
        return Program(_clone(self.module), dict(self.params), self.source, self.is_export)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Program:
        params = {name: array.copy() for name, array in self.params.items()}
        return Program(_clone(self.module), params, self.source, self.is_export)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as text with locations, and the weights."""
        text = print_mlir(self.module, locations=True)
        return _of_text, (text, self.params, self.source, self.is_export)

    def __str__(self) -> str:
        return print_mlir(self.module)

    def __repr__(self) -> str:
        names = [
            f"@{name} of {sum(1 for _ in with_nested(p)) - 1} ops"
            for name, p in self.programs.items()
        ]
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return (
            f"<Program {shown or 'without programs'}, {len(self.params)} parameters, {self.source}>"
        )

    def _repr_html_(self) -> str:
        return tree(repr(self), str(self))


def _clone(module: mlir.ModuleOp) -> mlir.ModuleOp:
    """Clone a module as xDSL does, without writing the regions of fused kernels first."""
    values: dict[SSAValue, SSAValue] = {}
    token = LAZY_COPIES.set(True)
    try:
        copy = module.clone(values, clone_operands=False)
    finally:
        LAZY_COPIES.reset(token)
    for old, new in zip(with_nested(module), with_nested(copy), strict=True):
        new.operands = tuple([values.get(v, v) for v in old.operands])
    return copy


def _of_text(text: str, params: dict[str, Array], source: str, is_export: bool) -> Program:
    return Program(parse_mlir(text, source), params, source, is_export)
