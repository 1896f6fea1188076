"""The saved values of a forward run, and the outputs that keep them alive until its backward."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.scope.scope import Scope
from pirkit.runtime.scope.scope_pool import ScopePool
from pirkit.runtime.tensor.dense import DenseTensor


class Graph:
    """One forward run that can run backward.

    It lives as long as the tuple that ``forward`` returned, or an output in it, is referenced.
    After that it releases the saved values, with or without a backward.
    """

    __slots__ = (
        "__weakref__",
        "_let_go",
        "_scope",
        "backend",
        "lock",
        "metas",
        "number",
        "pool",
        "why",
    )

    def __init__(
        self,
        pool: ScopePool,
        scope: Scope,
        backend: str,
        number: int,
        metas: tuple[TensorMeta, ...],
    ) -> None:
        self.pool = pool
        self.backend = backend
        self.number = number
        self.metas = metas
        """The types of the outputs."""
        self.lock = threading.Lock()
        self.why = ""
        """The reason why a backward is no longer possible."""
        self._scope: Scope | None = scope
        self._let_go = weakref.finalize(self, pool.give, scope)
        self._let_go.atexit = False

    @property
    def scope(self) -> Scope:
        """The scope with the saved values. Raises RuntimeFault (PK0906) if it has been released."""
        if self._scope is None:
            raise RuntimeFault(
                f"the forward run {self.why}",
                code="PK0906",
                help="pass `retain_graph=True` to all backwards of it but the last",
            )
        return self._scope

    @property
    def is_released(self) -> bool:
        return self._scope is None

    def release(self, why: str = "was released") -> None:
        """Release the saved values. Further calls have no effect."""
        if self._scope is not None:
            self.why = why
            self._scope = None
            self._let_go()


class Outputs(tuple[DenseTensor, ...]):
    """The outputs of a forward run. ``graph`` is None if the run saved nothing for a backward."""

    graph: Graph | None = None


def attach_graph(outputs: Iterable[DenseTensor], graph: Graph) -> None:
    """Keep a graph alive as long as any of these tensors."""
    for tensor in outputs:
        holder = weakref.finalize(tensor, _nothing, graph)
        holder.atexit = False


def _nothing(graph: Graph) -> None:
    """The finalizer of an output: as its argument, the graph lives as long as the output."""
