"""Calls that users get wrong, each with the error and words of the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pirkit
import pirkit.numpy as pnp
from pirkit import ops
from pirkit.frontend.cases import check_case

X = np.ones(3)
TENSOR = pirkit.tensor([1.0, 2.0])
BOX = np.array([object()] * 3)


def square_sum(x: Any) -> Any:
    return (x * x).sum()


PROGRAM = pirkit.trace(square_sum, X)
EXE = pirkit.compile(PROGRAM)
JITTED = pirkit.jit(square_sum)

WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "compile(3)": (lambda: pirkit.compile(3), "PK0701", "a program or a function, not a int"),
    "compile(f)": (lambda: pirkit.compile(square_sum), "PK0701", "an example of each argument"),
    "compile(path)": (lambda: pirkit.compile("a.json"), "PK0701", "not a str"),
    "compile(program, x)": (lambda: pirkit.compile(PROGRAM, X), "PK0701", "takes no examples"),
    "compile(backend)": (lambda: pirkit.compile(PROGRAM, backend="tpu"), "PK0700", "no backend"),
    "compile(pipeline)": (lambda: pirkit.compile(PROGRAM, pipeline="csee"), "PK0702", "unknown pass"),
    "compile(fused)": (lambda: pirkit.compile(PROGRAM, fused="gpu"), "PK0701", "nothing called `gpu`"),
    "compile(threads=0)": (lambda: pirkit.compile(PROGRAM, threads=0), "PK0701", "0 threads"),
    **{
        f"threads={n!r}": (lambda n=n: pirkit.compile(PROGRAM, threads=n), "PK0701", f"{n!r} threads")
        for n in (1.5, True, "2")
    },
    "config(threads=True)": (lambda: pirkit.threads(True), "PK0701", "not True"),
    "compile(entry)": (lambda: pirkit.compile(PROGRAM, entry="foo"), "PK0700", "@foo"),
    "compile(params=3)": (lambda: pirkit.compile(PROGRAM, params=3), "PK0701", "arrays by name"),
    "load(None)": (lambda: pirkit.load(None), "PK0701", "the path of a file, not a NoneType"),
    "load of nothing": (lambda: pirkit.load("no_such_file.json"), "PK0506", "cannot read"),
    "save(3)": (lambda: pirkit.save(3, "x.mlir"), "PK0701", "writes a program, not a int"),
    "save to None": (lambda: pirkit.save(PROGRAM, None), "PK0701", "the path of a file"),
    "save to an unknown kind": (lambda: pirkit.save(PROGRAM, "x.foo"), "PK0701", "no format of the suffix"),
    "save in no format": (lambda: pirkit.save(PROGRAM, "x.mlir", format="foo"), "PK0701", "no format `foo`"),
    "check_case": (lambda: check_case("x", "foo"), "PK0701", "no programs `foo`"),
    "quantize a number": (lambda: pirkit.quantize(3), "PK0701", "takes a program, not a int"),
    "run_passes(3)": (lambda: pirkit.run_passes(3, "cse"), "PK0701", "a program and a pipeline"),
    "run_passes(None)": (lambda: pirkit.run_passes(PROGRAM, None), "PK0701", "a NoneType"),
    "trace(3)": (lambda: pirkit.trace(3), "PK0701", "records a function, not a int"),
    "trace(f)": (lambda: pirkit.trace(square_sum), "PK0701", "missing a required argument: 'x'"),
    "grad(3)": (lambda: pirkit.grad(3), "PK0701", "takes a function as `f`, not a int"),
    "grad(argnums)": (lambda: pirkit.grad(square_sum, 4)(X), "PK0701", "argument 4"),
    "grad(argnums='x')": (lambda: pirkit.grad(square_sum, "x")(X), "PK0701", "numbers of arguments"),
    "grad of rows": (lambda: pirkit.grad(lambda x: x)(X), "PK0701", "one floating number"),
    "grad of integers": (lambda: pirkit.grad(square_sum)(np.arange(2)), "PK0701", "no derivative"),
    "grad keyword": (lambda: pirkit.grad(square_sum)(X, foo=2), "PK0701", "keyword argument 'foo'"),
    "value_and_grad(None)": (lambda: pirkit.value_and_grad(None), "PK0701", "takes a function"),
    "vjp(3)": (lambda: pirkit.vjp(3, X), "PK0701", "takes a function as `f`"),
    "jvp(f, x, x)": (lambda: pirkit.jvp(square_sum, X, X), "PK0701", "takes tuples"),
    "jvp shapes": (lambda: pirkit.jvp(square_sum, (X,), (np.ones(2),)), "PK0203", "derivative of a"),
    "hessian(3)": (lambda: pirkit.hessian(3), "PK0701", "takes a function"),
    "linearize(3)": (lambda: pirkit.linearize(3, X), "PK0701", "takes a function"),
    "vmap(3)": (lambda: pirkit.vmap(3), "PK0701", "takes a function"),
    "vmap(in_axes)": (lambda: pirkit.vmap(square_sum, (0, 0))(X), "PK0701", "for 1 trees"),
    "jit(3)": (lambda: pirkit.jit(3), "PK0701", "compiles a function, not a int"),
    "jit(None)(3)": (lambda: pirkit.jit(None)(3), "PK0701", "compiles a function, not a int"),
    "jit(static)": (lambda: pirkit.jit(square_sum, static_argnames="y"), "PK0701", "no parameter 'y'"),
    "jitted(str)": (lambda: JITTED("abc"), "PK0701", "str is no tensor"),
    "jitted(objects)": (lambda: JITTED(BOX), "PK0701", "no tensor"),
    "jitted(x, x)": (lambda: JITTED(X, X), "PK0701", "too many positional arguments"),
    "jitted(foo=)": (lambda: JITTED(X, foo=1), "PK0701", "keyword argument 'foo'"),
    "cond(3)": (lambda: pirkit.cond(True, 3, 4), "PK0701", "takes a function as `true_fun`"),
    "while_loop(3)": (lambda: pirkit.while_loop(3, square_sum, X), "PK0701", "`cond_fun`"),
    "scan(3)": (lambda: pirkit.scan(3, X, X), "PK0701", "takes a function as `f`"),
    "custom_vjp(3)": (lambda: pirkit.custom_vjp(3), "PK0701", "not to a int"),
    "tensor(str)": (lambda: pirkit.tensor("abc"), "PK0400", "elements of type"),
    "tensor(ragged)": (lambda: pirkit.tensor([[1, 2], [3]]), "PK0100", "no tensor can be made"),
    "tensor(objects)": (lambda: pirkit.tensor(BOX), "PK0400", "`object`"),
    "tensor(dtype)": (lambda: pirkit.tensor([1], dtype="float33"), "PK0400", "`float33`"),
    "tensor(dtype=3)": (lambda: pirkit.tensor([1], dtype=3), "PK0400", "`3`"),
    "from_numpy(list)": (lambda: pirkit.from_numpy([1, 2]), "PK0701", "a numpy array, not a list"),
    "from_dlpack(3)": (lambda: pirkit.from_dlpack(3), "PK0701", "__dlpack__"),
    "exe()": (lambda: EXE(), "PK0902", "'x' is missing"),
    "exe(x)": (lambda: EXE(X), "PK0701", "inputs by name, not 1 by position"),
    "exe(y=)": (lambda: EXE(y=X), "PK0902", "no input 'y'"),
    "exe(shape)": (lambda: EXE(x=np.ones((2, 2))), "PK0903", "expected tensor<3xf64>"),
    "exe(objects)": (lambda: EXE(x=BOX), "PK0903", "dtype object"),
    "exe.run(3)": (lambda: EXE.run(3), "PK0701", "a dict of inputs"),
    "ops.tanh(x, x)": (lambda: ops.tanh(X, X), "PK0701", "takes 1 arguments, got 2"),
    "ops.tanh(str)": (lambda: ops.tanh("abc"), "PK0400", "elements of type"),
    "ops.matmul": (lambda: ops.matmul(X[:2], X), "PK0901", "matmul"),
    "seed(str)": (lambda: pirkit.seed("a"), "PK0701", "a seed is an integer"),
    "threads(0)": (lambda: pirkit.threads(0), "PK0701", "`threads` is not 0"),
    "config(foo=)": (lambda: pirkit.config(foo=1).__enter__(), "PK0701", "no setting `foo`"),
    "numpy.sum(axes=)": (lambda: pnp.sum(X, axes=0), "PK0701", "keyword argument 'axes'"),
    "numpy.sum(str)": (lambda: pnp.sum("abc"), "PK0701", "takes a tensor, not a str"),
}  # fmt: skip
