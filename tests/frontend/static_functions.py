"""Functions with Python's control flow, written for numpy arrays, which `to_static` converts.

Each takes one vector and returns one number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

MODE: Final = "double"
LAYERS: Final = [
    np.array([0.5, -1.0, 2.0]),
    np.array([1.5, 0.25, -0.5]),
    np.array([-1.0, 1.0, 0.3]),
]
FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {}


def listed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    FUNCTIONS[function.__name__] = function
    return function


# --- branches ---


@listed
def if_else(x: Any) -> Any:
    if x.sum() > 0:
        y = x * x
    else:
        y = np.sin(x)
    return y.sum()


@listed
def if_without_else(x: Any) -> Any:
    y = x * 3.0
    if y[0] > y[1]:
        y = np.exp(-y * y)
    return y.sum()


@listed
def elif_chain(x: Any) -> Any:
    s = x.sum()
    if s > 2:
        y = x**3
    elif s > 0:
        y = x * 2
    elif s > -2:
        y = np.cos(x)
    else:
        y = -x
    return (y * x).sum()


@listed
def early_return(x: Any) -> Any:
    if x[0] > 0.5:
        return (x * x).sum()
    y = np.tanh(x)
    return y.sum() * 2


@listed
def returns_everywhere(x: Any) -> Any:
    s = (x * x).sum()
    if s > 4:
        if x[0] > 0:
            return s
        return -s
    if x[1] > 0:
        return s * s
    return x.prod()


@listed
def return_in_one_inner_branch(x: Any) -> Any:
    y = x
    if x.sum() > 0:
        if x[0] > 1:
            return x.sum() * 10.0
        y = x * x
    else:
        y = -x
    y = y + 1
    return (y * x).sum()


@listed
def nested_branches(x: Any) -> Any:
    a, b, c = x[0], x[1], x[2]
    if a > b:
        if b > c:
            r = a * b
        else:
            r = a * c
        r = r * 2
    else:
        r = b * c
        if a > 0:
            r = r + a
    return r


@listed
def python_values_stay(x: Any) -> Any:
    label = "up"
    scale = 2
    if x.sum() > 0:
        scale = 3
        label = "up"
    if label == "up" and MODE == "double":
        x = x * 2
    return (x * scale).sum()


@listed
def temporaries_of_one_branch(x: Any) -> Any:
    if x[2] > 0:
        t = np.exp(x * 0.1)
        y = t * t
    else:
        y = x
    return (y * y).sum()


@listed
def containers(x: Any) -> Any:
    state = {"h": x, "c": [x * 0.5, x * 0.25]}
    if x.mean() > 0.2:
        state["h"] = np.tanh(state["h"])
        state["c"][0] = state["c"][0] * 3
    return (state["h"] + state["c"][0] * state["c"][1]).sum()


@listed
def swapped(x: Any) -> Any:
    a, b = x[0], x[1]
    if a < b:
        a, b = b, a
    return a * 3 - b * b


@listed
def augmented(x: Any) -> Any:
    y = x * 1.0
    if x[0] > 0:
        y = y + x
        y *= 2
    y = y - 1
    return y.sum()


@listed
def walrus_in_loop(x: Any) -> Any:
    total, i = 0.0, 0.0
    for _ in range(2):
        while (s := abs(x).sum() * i) < 4 and i < 9:
            i += 1.0
        else:
            total = total + s
    return total + s if (t := x[0]) > 0 and t < 1 else t * s


@listed
def operands_of_several_types(x: Any) -> Any:
    n = 2
    if x.sum() > 0 and n:
        return x.sum()
    return x[0] * 3 if not (x[0] and x[1] > 0) or n > 2 else x.prod()


@listed
def in_order(x: Any) -> Any:
    low, *_, high = sorted([x[0], 0.5, x[1]], reverse=True)
    return low * 2 + high + sorted(x)[1]


@listed
def walrus(x: Any) -> Any:
    if (s := x.sum()) > 1:
        return s * s
    return s


# --- conditions ---


@listed
def conjunction(x: Any) -> Any:
    if x[0] > 0 and x[1] > 0 and len(x) == 3:
        return x.sum()
    return (x * x).sum()


@listed
def disjunction(x: Any) -> Any:
    y = x.sum()
    if x[0] > 1 or (x[1] < 0 and not x[2] > 0):
        y = y * 3
    return y


@listed
def guarded_index(x: Any) -> Any:
    i = 0
    while i < x.shape[0] and x[i] > -0.5:
        i += 1
    return (x * (i + 1)).sum()


@listed
def chained_comparison(x: Any) -> Any:
    return x.sum() if -1 < x[0] < 1 else (x * x).sum()


@listed
def conditional_expression(x: Any) -> Any:
    y = x if x[0] > x[2] else -x
    z = (y[0] if y[1] > 0 else y[2]) if y[0] > 0 else y[1] * 2
    return z * z + y.sum()


@listed
def membership(x: Any) -> Any:
    if 1.0 in np.sign(x[:2] - 0.5):
        return x.sum() * 4
    return x.sum() if 7.0 not in x else x[0]


@listed
def smallest(x: Any) -> Any:
    return min(x[0], x[1]) * max(x[1], x[2], 0.5)


# --- while ---


@listed
def while_on_a_sum(x: Any) -> Any:
    y = x
    while (y * y).sum() < 50:
        y = y * 1.5 + 0.1
    return y.sum()


@listed
def while_with_a_counter(x: Any) -> Any:
    steps = 0
    y = x
    while abs(y).max() > 0.2:
        y = y * 0.5
        steps += 1
    return y.sum() * steps


@listed
def while_true_break(x: Any) -> Any:
    y = x
    while True:
        y = y * 0.7
        if (y * y).sum() < 0.5:
            break
    return (y * x).sum()


@listed
def while_else(x: Any) -> Any:
    y = x
    while y.sum() < 10:
        y = y + abs(x) + 1
        if y[0] > 4:
            break
    else:
        y = y * 2
    return y.sum()


@listed
def while_continue(x: Any) -> Any:
    i = 0.0
    total = x * 0.0
    while i + x[0] * 0 < 5:
        i += 1
        if x[1] * i > 2.05:
            continue
        total = total + x * i
    return (total * total).sum()


@listed
def while_return(x: Any) -> Any:
    y = x
    n = 0
    while n < 6 + 0 * x[0]:
        y = y * 1.3
        if y.max() > 3:
            return y.sum() * 2
        n += 1
    return y.prod()


@listed
def newton(x: Any) -> Any:
    a = (x * x).sum() + 1
    r = a
    while abs(r * r - a) > 1e-9:
        r = (r + a / r) / 2
    return r


@listed
def nested_while(x: Any) -> Any:
    y = x
    total = x.sum() * 0
    while y.sum() < 8:
        z = y
        while abs(z).max() > 0.613:
            z = z * 0.5
        total = total + z.sum()
        y = y + 1
    return total * y[0]


# --- for ---


@listed
def for_range_of_a_tensor(x: Any) -> Any:
    n = int(abs(x).sum())
    y = x
    for i in range(n):
        y = y * 0.9 + i
    return y.sum()


@listed
def for_range_with_step(x: Any) -> Any:
    n = int(abs(x[0]) * 4)
    total = x[1] * 0
    for i in range(n, -1, -2):
        total = total + x[1] * i
    return total + x[2]


@listed
def for_rows(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v > 0:
            total = total + v * v
        else:
            total = total - v
    return total


@listed
def for_rows_break(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v < -0.5:
            break
        total = total + v * v
    return total + x.sum()


@listed
def for_rows_continue_and_else(x: Any) -> Any:
    total = 1.0
    for i, v in enumerate(x):
        if v < 0:
            continue
        total = total * (v + i)
    else:
        total = total + 1
    return total


@listed
def for_return(x: Any) -> Any:
    for v in x:
        if v > 0.6:
            return v * 10
    return x.sum()


@listed
def for_two_tensors(x: Any) -> Any:
    total = 0.0
    for a, b in zip(x, x * x, strict=True):
        if a > b:
            total = total + a
        else:
            total = total + b * 2
    return total


@listed
def for_layers(x: Any) -> Any:
    y = x
    for i, w in enumerate(LAYERS):
        y = np.tanh(y * w)
        if y.sum() > 0.5 and i < 2:
            y = y * 2
    return y.sum()


@listed
def for_layers_break(x: Any) -> Any:
    y = x
    used = 0
    for w in LAYERS:
        if abs(y).max() > 2:
            break
        y = y * w + x
        used += 1
    return (y * y).sum() * used + y[0]


@listed
def nested_for(x: Any) -> Any:
    total = 0.0
    for a in x:
        for b in x:
            if a > b:
                continue
            total = total + a * b
            if total > 5:
                break
        if total > 6:
            break
    return total


@listed
def for_in_while(x: Any) -> Any:
    y = x
    while y.sum() < 5:
        for i in range(3):
            if y[i] > 1.5:
                continue
            y = y + 0.4
    return (y * y).sum()


# --- calls ---


def _clipped(v: Any) -> Any:
    if v > 1:
        return v * 0 + 1
    if v < -1:
        return v * 0 - 1
    return v


@listed
def called_function(x: Any) -> Any:
    return _clipped(x[0] * 2) + _clipped(x[1]) * x[2]


class _Model:
    def __init__(self) -> None:
        self.w = np.array([1.0, -2.0, 0.5])
        self.__depth = 2

    def __call__(self, x: Any) -> Any:
        for _ in range(self.__depth):
            x = self.layer(x)
        return x

    def layer(self, x: Any) -> Any:
        y = x * self.w
        return y if y.sum() > 0 else -y * 0.5


@listed
def called_object(x: Any) -> Any:
    return _Model()(x).sum()


@listed
def inner_function(x: Any) -> Any:
    bound = 0.5

    def relu(v: Any) -> Any:
        if v > bound:
            return v
        return v * 0.1

    square = lambda v: v * v if v > 0 else -v  # noqa: E731
    if x[0] > 0:
        bound = 0.25
    return relu(x[0]) + square(x[1]) + sum(relu(v) for v in list(x))


@listed
def recursion_on_python_values(x: Any, depth: int = 3) -> Any:
    if depth == 0:
        return x.sum()
    if x[0] > 0:
        x = np.sin(x) * 2
    return recursion_on_python_values(x, depth - 1)


@listed
def function_as_argument(x: Any) -> Any:
    return sum(map(_clipped, list(x * 3)))


@listed
def asserted(x: Any) -> Any:
    assert (x * x).sum() >= 0, "a sum of squares"
    y = x.sum()
    if y > 0:
        assert y > -1
        y = y * 2
    return y


@listed
def with_block(x: Any) -> Any:
    with np.errstate(all="ignore"):
        if x[0] > 0.5:
            return x.sum() * 2
        y = x * 3
    return y.prod()


@listed
def try_of_python(x: Any) -> Any:
    try:
        size = {"a": 1}["b"]
    except KeyError:
        size = 2
    finally:
        x = x * 2
    return x.sum() * size if x[0] > 0 else x.prod()


@listed
def matched(x: Any) -> Any:
    match MODE:
        case "single":
            return x.sum()
        case "double":
            if x[0] > 0:
                return x.sum() * 2
            x = x * 3
        case _:
            pass
    return x.prod()


@listed
def expression_in_a_loop(x: Any) -> Any:
    total, count = 0.0, 0
    for v in x:
        total = total + v if v > 0 else total
        count = count + 1 if v > 0.5 or v < -1 else count
    return total * count + x[0]
