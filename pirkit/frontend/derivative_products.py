"""Products of derivatives with vectors: what replaces a matrix that nobody wants to form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from pirkit.frontend.python_calls import takes_functions
from pirkit.frontend.transforms import grad, hessian, jvp

Function = Callable[..., Any]


@takes_functions("f")
def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of a function whose result is one number, times ``tangents``.

    Forward over reverse: about four times the cost of ``f``, without a Hessian. The result has the
    structure of ``primals``, of their only one if there is one.
    """
    which = tuple(range(len(primals)))
    _, product = jvp(grad(f, which), primals, tangents)
    return product[0] if len(which) == 1 else product


@takes_functions("f")
def linearize(f: Function, *primals: Any) -> tuple[Any, Function]:
    """The result of a function, and the function from tangents of the primals to that of it."""
    y = f(*primals)

    def pushforward(*tangents: Any) -> Any:
        return jvp(f, primals, tangents)[1]

    return y, pushforward


@takes_functions("f")
def laplacian(f: Function, argnums: int = 0) -> Function:
    """The sum of the second derivatives of a function whose result is one number.

    One sweep forward over the gradient for each element of the argument.
    """
    second = hessian(f, argnums)

    def summed(*args: Any, **kwargs: Any) -> Any:
        found = second(*args, **kwargs)
        count = prod(found.shape[: len(found.shape) // 2])
        return found.reshape((count, count)).trace()

    return summed
