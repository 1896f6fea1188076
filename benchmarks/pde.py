"""The PDE problems of `examples/pde` beside jax and torch: CPU time of a training step.

    python -m benchmarks.pde [names...] [--rounds 9] [--torch]
    python -m benchmarks.pde [names...] --first

Each problem is the same Python code for all frameworks, with `d` and the functions of the network
replaced. jax runs it in each form that a user might write: nested `grad`, nested `jvp`,
`jax.experimental.jet`, and a forward Laplacian written by hand where the problem is one; the best
one counts. Figures are medians of interleaved rounds, in microseconds of CPU time of all threads.

With ``--first`` the figures are CPU seconds of all threads and child processes of a first call,
which traces and compiles, each in a process of its own with an empty cache: pirkit, then jax in
each form. Importing pirkit or jax is not counted; modules that either imports during the call are,
from byte code, which an installation has. Each figure is the least of ``--rounds`` processes.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType, SimpleNamespace
from typing import Any

FOLDER = Path(__file__).parents[1] / "examples" / "pde"
NAMES = tuple(sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "pinn"))
LAPLACIANS = ("poisson", "helmholtz", "poisson_10d")


def example(name: str) -> ModuleType:
    """A fresh copy of an example, whose names may be replaced."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"pde_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_jax(name: str, form: str = "grad") -> Any:
    """The loss of an example as a function of jax arrays, with derivatives in one of the forms."""
    import jax
    import jax.numpy as jnp

    module: Any = example(name)
    module.d = {"grad": _jax_grad, "jvp": _jax_jvp, "jet": _JaxJet, "laplacian": _jax_grad}[form]
    module.ops = SimpleNamespace(
        tanh=jnp.tanh, sin=jnp.sin, cos=jnp.cos, exp=jnp.exp, concat=jnp.concatenate
    )

    def mlp(params: Any, x: Any, act: Any = jnp.tanh) -> Any:
        for w, b in params[:-1]:
            x = act(x @ w + b)
        return x @ params[-1][0] + params[-1][1]

    module.mlp = mlp
    if form == "laplacian":
        act, second = (jnp.sin, lambda h, s: (jnp.cos(h), -s)) if name == "helmholtz" else (
            jnp.tanh, lambda h, s: (1 - s * s, -2 * s * (1 - s * s)))  # fmt: skip
        return jax.jit(_by_forward_laplacian(name, module, act, second))
    return module.loss


def _by_forward_laplacian(name: str, module: Any, act: Any, slopes: Any) -> Any:
    """The losses of Poisson's and Helmholtz' equations by a forward Laplacian (Li et al., 2023)."""
    import jax.numpy as jnp

    def laplacian(params: Any, x: Any) -> tuple[Any, Any]:
        n, d = x.shape
        h, slope = x, jnp.broadcast_to(jnp.eye(d)[:, None], (d, n, d)).astype(x.dtype)
        lap: Any = None
        for i, (w, b) in enumerate(params):
            h, slope = h @ w + b, slope @ w
            lap = jnp.zeros_like(h) if lap is None else lap @ w
            if i < len(params) - 1:
                s = act(h)
                first, second = slopes(h, s)
                h, lap = s, first * lap + second * (slope * slope).sum(0)
                slope = first * slope
        return h[:, 0], lap[:, 0]

    def loss(params: Any, x: Any, side: Any) -> Any:
        u, lap = laplacian(params, x)
        at = module.mlp(params, side, act)[:, 0]
        if name == "helmholtz":
            source = module.K**2 * jnp.sin(module.K * x[:, 0]) * jnp.sin(module.K * x[:, 1])
            return ((lap + module.K**2 * u + source) ** 2).mean() + 100.0 * (at**2).mean()
        if name == "poisson":
            return ((lap + 1.0) ** 2).mean() + (at**2).mean()
        return ((lap - 2.0) ** 2).mean() + ((at - (side**2).mean(axis=1)) ** 2).mean()

    return loss


def _jax_grad(u: Any, k: int) -> Any:
    import jax

    return lambda x: jax.grad(lambda x: u(x).sum())(x)[:, k]


def _jax_jvp(u: Any, k: int) -> Any:
    import jax
    import jax.numpy as jnp

    return lambda x: jax.jvp(u, (x,), (jnp.zeros_like(x).at[:, k].set(1),))[1]


class _JaxJet:
    """Repeated derivatives along one column are a jet; others a jvp of it."""

    def __init__(self, u: Any, k: int) -> None:
        inner = u if isinstance(u, _JaxJet) and u.column == k else None
        self.u, self.column = (inner.u if inner else u), k
        self.order: int = inner.order + 1 if inner else 1

    def __call__(self, x: Any) -> Any:
        import jax
        import jax.numpy as jnp
        from jax.experimental.jet import jet

        way = jnp.zeros_like(x).at[:, self.column].set(1)
        if self.order == 1:
            return jax.jvp(self.u, (x,), (way,))[1]
        zeros = [jnp.zeros_like(x)] * (self.order - 1)
        return jet(self.u, (x,), ((way, *zeros),))[1][-1]


def jax_adam(loss: Any, rate: float = 1e-3) -> Any:
    """The step of `examples/pde/pinn.py` in jax; see `jax_state`."""
    import jax

    @jax.jit
    def step(state: Any, *data: Any) -> Any:
        params, (count, first, second) = state
        value, slopes = jax.value_and_grad(loss)(params, *data)
        count = count + 1
        scale, root = rate / (1 - 0.9**count), (1 - 0.999**count) ** 0.5
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, slopes)
        params = jax.tree.map(
            lambda p, m, v: p - scale * m / (v**0.5 / root + 1e-8), params, first, second
        )
        return value, (params, (count, first, second))

    return step


def jax_state(params: Any) -> Any:
    """Parameters, and the number of steps and both moments of Adam, in jax."""
    import jax
    import jax.numpy as jnp

    params = jax.tree.map(jnp.asarray, params)
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, (jnp.zeros((), int), zeros, zeros)


def torch_adam(name: str, params: Any, data: Any) -> Callable[[], Any]:
    """A step in torch, eager, as DeepXDE does it."""
    import torch

    module: Any = example(name)

    def d(u: Any, k: int) -> Any:
        def derivative(x: Any) -> Any:
            x = x if x.requires_grad else x.clone().requires_grad_()
            return torch.autograd.grad(u(x).sum(), x, create_graph=True)[0][:, k]

        return derivative

    def mlp(params: Any, x: Any, act: Any = torch.tanh) -> Any:
        for w, b in params[:-1]:
            x = act(x @ w + b)
        return x @ params[-1][0] + params[-1][1]

    module.d, module.mlp = d, mlp
    module.ops = SimpleNamespace(
        tanh=torch.tanh, sin=torch.sin, cos=torch.cos, exp=torch.exp, concat=torch.cat
    )
    leaves: list[Any] = []

    def lifted(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(lifted, value))
        leaves.append(torch.tensor(value, requires_grad=True))
        return leaves[-1]

    held = lifted(params)
    given = [torch.tensor(a) for a in data]
    optimizer = torch.optim.Adam(leaves, lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        value = module.loss(held, *given)
        value.backward()
        optimizer.step()
        return value

    return step


def cpu(step: Callable[[], Any], least: float = 0.05) -> float:
    """Microseconds of CPU time of one step, over as many as take ``least`` seconds."""
    count, start = 0, time.process_time()
    while time.process_time() - start < least:
        step()
        count += 1
    return (time.process_time() - start) / count * 1e6


def forms_of(name: str) -> tuple[str, ...]:
    """The forms in which jax runs a problem."""
    return ("grad", "jvp", "jet", *(("laplacian",) if name in LAPLACIANS else ()))


def measure(name: str, rounds: int, with_torch: bool) -> dict[str, tuple[float, float]]:
    """First call in seconds, and CPU time of a step in microseconds, by framework and form."""
    import jax

    module: Any = example(name)
    from pinn import adam, state  # pyright: ignore

    params, data = module.problem()
    steps: dict[str, Callable[[], Any]] = {}
    first: dict[str, float] = {}

    def add(label: str, make: Callable[[], Any], *given: Any) -> None:
        begin = time.process_time()
        try:
            step = make()
            held = [given[0]] if given else []

            def run() -> None:
                if not given:
                    step()
                    return
                found = step(held[0], *given[1:])
                jax.block_until_ready(found[0]) if label.startswith("jax") else None
                held[0] = found[1]

            run()
        except (NotImplementedError, TypeError, ValueError) as error:
            if label == "pirkit":
                raise  # only a peer may lack a form
            print(f"# {name}: {label} cannot: {error!r:.200}", file=sys.stderr)
            return
        first[label], steps[label] = time.process_time() - begin, run

    add("pirkit", lambda: adam(module.loss), state(params), *data)
    for form in forms_of(name):
        on_device = [jax_state(params), *map(jax.numpy.asarray, data)]
        add(f"jax {form}", lambda form=form: jax_adam(in_jax(name, form)), *on_device)
    if with_torch:
        add("torch", lambda: torch_adam(name, params, data))
    times: dict[str, list[float]] = {label: [] for label in steps}
    for _ in range(rounds):
        for label, step in steps.items():
            times[label].append(cpu(step))
    return {label: (first[label], median(held)) for label, held in times.items()}


def first_call(name: str, label: str) -> float:
    """CPU seconds of the first call of this process and of the workers that it starts, for
    `pirkit` or a form of jax.
    """
    module: Any = example(name)
    from pinn import adam, state  # pyright: ignore

    params, data = module.problem()
    if label == "pirkit":
        step, held = adam(module.loss), state(params)
        start = _seconds_with_children()
        step(held, *data)
        return _seconds_with_children() - start
    import jax

    step, held = jax_adam(in_jax(name, label)), jax_state(params)
    data = [*map(jax.numpy.asarray, data)]
    start = _seconds_with_children()
    jax.block_until_ready(step(held, *data)[0])
    return _seconds_with_children() - start


def _seconds_with_children() -> float:
    """CPU seconds of this process and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def first_calls(names: list[str], rounds: int, with_jax: bool) -> None:
    """Print the table of first calls."""
    print("| problem | pirkit | jax grad, jvp, jet, by hand | fastest jax / pirkit |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as byte_code:
        for name in names:
            _print_first_calls(name, rounds, with_jax, byte_code)


def _print_first_calls(name: str, rounds: int, with_jax: bool, byte_code: str) -> None:
    """Print a row of the table of first calls; modules' byte code is kept in a folder."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = byte_code
    labels = ("pirkit", *(forms_of(name) if with_jax else ()))
    found: dict[str, float] = {}
    for i in range(rounds + 1):  # the first one writes byte code
        for label in labels:
            with tempfile.TemporaryDirectory() as cache:
                command = [sys.executable, "-m", "benchmarks.pde", name, "--first-of", label]
                given = kept | {"XDG_CACHE_HOME": cache}
                made = subprocess.run(command, env=given, capture_output=True, text=True)
            if made.returncode == 0 and i:
                found[label] = min(found.get(label, math.inf), float(made.stdout))
    ours = found.pop("pirkit")
    shown = ", ".join(f"{v:.2f}" for v in found.values())
    ratio = f"{min(found.values()) / ours:.1f}" if found else ""
    print(f"| {name} | {ours:.2f} | {shown} | {ratio} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-jax", action="store_true", help="with --first: pirkit alone")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--first-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first_of:
        print(first_call(options.names[0], options.first_of))
        return
    if options.first:
        first_calls(list(options.names or NAMES), options.rounds, not options.no_jax)
        return
    print("| problem | pirkit | jax grad, jvp, jet, by hand | best ratio | torch | first call |")
    print("|---|---|---|---|---|---|")
    for name in options.names or NAMES:
        found = measure(name, options.rounds, options.torch)
        ours, own_first = found["pirkit"][1], found["pirkit"][0]
        jaxes = {k: v for k, v in found.items() if k.startswith("jax")}
        best = min(jaxes, key=lambda k: jaxes[k][1])
        shown = ", ".join(f"{v[1]:.0f}" for v in jaxes.values())
        torch = f"{found['torch'][1]:.0f}" if "torch" in found else ""
        print(
            f"| {name} | {ours:.0f} | {shown} | {jaxes[best][1] / ours:.1f} ({best[4:]}) "
            f"| {torch} | {own_first:.2f} s, jax {jaxes[best][0]:.2f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
