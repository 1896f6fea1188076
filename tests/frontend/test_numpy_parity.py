"""What a user of numpy and jax writes: functions, methods, indices and updates, beside numpy's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
import pirkit.numpy as pnp
from pirkit.diag.errors import PirkitError, TraceError

A: Final = np.array([[0.3, -1.2, 2.0], [1.5, 0.4, -0.7], [-0.2, 0.9, 1.1]])
V: Final = A[0]
NAN: Final = np.where(A > 1.2, np.nan, A)

FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "einsum": lambda m, a: m.einsum("ij,jk->ik", a, a) + m.einsum("ii", a) + m.einsum("ij->j", a),
    "inner": lambda m, a: m.inner(a, a[:2]),
    "vdot": lambda m, a: m.vdot(a, a),
    "kron": lambda m, a: m.kron(a, a[:2]),
    "multi_dot": lambda m, a: [m.linalg.multi_dot([a, a, a]), m.linalg.multi_dot([a[0], a, a[1]]),
                               m.linalg.multi_dot([a[:1], a, a, a[:, 0]])],
    "index arrays": lambda m, a: [
        a[np.array([2, 0, -1])], a[:, np.array([[0, 2], [1, -1]])], a[..., [1, 2]],
        a[1:, np.array([0, 0, 1])], a[np.array([1]), ::-1], a[[0, 2], [1, 1]]],
    "diag": lambda m, a: m.diag(a[0]) + m.diag(m.diag(a, 0)),
    "polyval": lambda m, a: m.polyval(a[0], a),
    "outer": lambda m, a: m.outer(a[0], a[1]),
    "dot": lambda m, a: m.dot(a, a[0]),
    "norm": lambda m, a: m.linalg.norm(a, axis=1),
    "atleast": lambda m, a: [m.atleast_1d(a[0, 0]), m.atleast_2d(a[0]), m.atleast_3d(a)],
    "column_stack": lambda m, a: m.column_stack([a[0], a]),
    "stacks": lambda m, a: [m.hstack([a, a]), m.vstack([a, a]), m.dstack([a, a])],
    "append": lambda m, a: m.append(a, a[0]),
    "split": lambda m, a: [*m.split(a, 3), *m.array_split(a, 2, axis=1), *m.split(a[0], [1])],
    "hsplit": lambda m, a: [*m.hsplit(a, 3), *m.vsplit(a, 3)],
    "pad": lambda m, a: [
        m.pad(a, ((1, 0), (0, 2)), constant_values=3), m.pad(a, 1, mode="edge"),
        m.pad(a, 2, mode="reflect"), m.pad(a, 1, mode="wrap")],
    "flips": lambda m, a: [m.fliplr(a), m.flipud(a), m.rot90(a), m.rot90(a, 3)],
    "select": lambda m, a: m.select([a > 1, a > 0], [a, a * 2], -1.0),
    "piecewise": lambda m, a: m.piecewise(a, [a > 0, a > 1], [m.square, 0.5, lambda v: -v]),
    "i0": lambda m, a: m.i0(a),
    "nan": lambda m, a: [f(m.where(a > 1.2, m.nan, a), axis=1)
                         for f in (m.nansum, m.nanprod, m.nanmax, m.nanmin, m.nanmean)],
    "nan_to_num": lambda m, a: m.nan_to_num(m.where(a > 1, m.inf, m.where(a < 0, m.nan, a))),
    "isclose": lambda m, a: [m.isclose(a, a + 1e-9), m.allclose(a, a), m.array_equal(a, a + 1)],
    "ptp": lambda m, a: m.ptp(a, axis=0),
    "quantiles": lambda m, a: [m.median(a), m.median(a, axis=0), m.quantile(a, 0.3, axis=1),
                               m.percentile(a, 70), m.median(a, axis=1, keepdims=True)],
    "several quantiles": lambda m, a: [
        m.quantile(a, [0.1, 0.6], axis=0), m.percentile(a, 30, axis=(0, 1), keepdims=True),
        m.nanmedian(m.where(a > 1.2, m.nan, a), axis=1), m.nanstd(m.where(a > 1.2, m.nan, a))],
    "average": lambda m, a: [m.average(a), m.average(a, axis=1, weights=abs(a[0])),
                             *m.average(a, weights=a * a, returned=True)],
    "corrcoef": lambda m, a: [m.corrcoef(a), m.cov(a[0]), m.corrcoef(a[0])],
    "histogram": lambda m, a: [*m.histogram(a, 4), m.histogram(a, 3, (0, 2), True, weights=a)[0],
                               *m.histogram(a, [0.0, 0.4, 1.0]), *m.histogram(a * 0 + 2, 3),
                               m.histogram(m.where(a > 1.2, m.nan, a), 3, (0, 2))[0]],
    "histogram holds the largest": lambda m, a: [
        m.sum(m.histogram(a * f, 3)[0]) for f in (0.1, 0.3, 0.7, 1.1, 1.3)],
    "linspace": lambda m, a: [m.linspace(a, a * f, 8)[-1] == a * f for f in (0.3, 0.7, 1.9)],
    "elements": lambda m, a: [m.fmod(a, 0.7), m.cbrt(a), m.sinc(a), m.sinc(0 * a), *m.modf(a),
                              m.ldexp(a, 2), m.isin(a, [0.4, 2.0]), m.unwrap(a * 4, axis=0)],
    "interp": lambda m, a: [m.interp(a, [-1.0, 0.0, 1.0], [3.0, 1.0, 2.0]),
                            m.interp(0.2, m.sort(a[0]), a[1], left=7.0),
                            m.digitize(a, [0.0, 1.0]), m.digitize(a, [1.0, 0.0], right=True)],
    "gradient": lambda m, a: [*m.gradient(a), m.gradient(a[0], 0.5), *m.gradient(a, 2.0, 3.0),
                              m.ediff1d(a), m.vander(a[0], 4), m.correlate(a[0], a[1], "full")],
    "places": lambda m, a: [m.delete(a, 1, axis=0), m.delete(a, [0, -1]), m.insert(a, 1, 5.0),
                            m.insert(a, [0, 2], a[:2], axis=0), m.insert(a, 1, a[0], axis=1),
                            m.sort(m.partition(a, 1)), *m.unravel_index(m.argmax(a), (3, 3)),
                            m.block([[a, a], [a[:1], a[2:]]])],
    "svd": lambda m, a: m.linalg.svd(a, compute_uv=False),
    "lstsq": lambda m, a: [*m.linalg.lstsq(a[:, :2], a[:, 2])[:2], m.linalg.cond(a),
                           m.linalg.cond(a, 1), m.fft.fft2(a), m.fft.irfft2(a + 1j)],
    "types as functions": lambda m, a: [m.float64(2) * a, m.int64([1, 2]),],
    "trapezoid": lambda m, a: [m.trapezoid(a), m.trapezoid(a[0], m.cumsum(a[1] ** 2))],
    "convolve": lambda m, a: [m.convolve(a[0], a[1, :2], k) for k in ("full", "same", "valid")],
    "cov": lambda m, a: [m.cov(a), m.cov(a[0], a[1]), m.cov(a[0], bias=True),
                         m.corrcoef(a[0], a[1])],
    "angle": lambda m, a: m.angle(a + 1j * a[::-1]),
    "hypot": lambda m, a: [m.hypot(a, 2.0), m.logaddexp(a, a[0])],
    "by position": lambda m, a: [m.sum(a, 0), m.mean(a, 1), m.argmax(a, 1), m.flip(a, 0),
                                 m.concatenate([a, a], 1), m.stack([a, a], 1), m.sort(a, 0)],
    "ddof": lambda m, a: [m.std(a, ddof=1), m.var(a, 0), m.cumsum(a, 1)],
    "array": lambda m, a: m.stack([a[0], a[1] * 2]) if m is np else m.array([a[0], a[1] * 2]),
    "identity": lambda m, a: a @ m.identity(3) + m.tri(3),
    "aliases": lambda m, a: [m.arctan2(a, 2.0), m.mod(a, 2.0), m.power(abs(a), 1.5),
                             m.deg2rad(a), m.exp2(a), m.absolute(a), m.fmax(a, 0.5)],
}  # fmt: skip


@pytest.mark.parametrize("module", [np, pnp], ids=["numpy", "pirkit.numpy"])
def test_functions_of_traced_values(module: Any) -> None:
    def every(a: Any) -> Any:
        return {k: f(module, a) for k, f in FUNCTIONS.items() if module is pnp or k != "array"}

    found = pirkit.jit(every)(A)
    for name, function in FUNCTIONS.items():
        if name in found:
            got, want = pirkit.tree.leaves(found[name]), pirkit.tree.leaves(function(np, A))
            for x, y in zip(got, want, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14, err_msg=name)
                assert np.asarray(x).dtype == np.asarray(y).dtype, name


def test_functions_of_tensors() -> None:
    for name, function in FUNCTIONS.items():
        got = pirkit.tree.leaves(function(pnp, pirkit.tensor(A)))
        for x, y in zip(got, pirkit.tree.leaves(function(np, A)), strict=True):
            np.testing.assert_allclose(x, y, err_msg=name)


def test_a_name_that_numpy_lacks_is_refused() -> None:
    with pytest.raises(AttributeError, match="einsun"):
        _ = pnp.einsun


METHODS: Final = (
    "sum() sum(0) sum(axis=1,keepdims=True) prod() mean() max(1) min() all() any() std()"
    " var(ddof=1) cumsum(1) cumprod(0) argmax(1) argmin() argsort(0) reshape(9) reshape(1,9)"
    " reshape((9,1)) ravel() flatten() transpose() transpose(1,0) swapaxes(0,1) squeeze() clip(0,1)"
    " round(1) repeat(2,axis=0) take(np.array([0,2]),axis=0) dot(x) diagonal()"
    " trace() astype('float32') conj() copy() reshape(9,order='F') reshape(1,-1,order='F')"
    " ravel('F') flatten('F') conjugate() argsort(axis=None,kind='stable')"
).split()
OPERATORS: Final = (
    "x+x x-1 2-x x*x x/2 1/x x//2 x%2 abs(x)**1.5 2**x -x +x abs(x) x@x x>0 x>=x x<1 x<=0 x==x x!=x"
    " (x>0)&(x<1) (x>0)|(x<0) ~(x>0) (x>0)^(x<1) divmod(x,2)[0] x.T x.real x.shape[0]+x"
    " np.sort(x[0]).searchsorted(x,side='right') np.reshape(x,(9,),order='F') np.ravel(x,'F')"
    " x.ndim*x x.size*x len(x)*x x[0] x[-1,::2] x[:,None] x[...,1] x[::-1] x[[0,2]] x[[0,1],[1,2]]"
).split()


def test_methods_and_operators_are_those_of_numpy() -> None:
    texts = [*[f"x.{m}" for m in METHODS], *OPERATORS]

    def every(x: Any) -> dict[str, Any]:
        return {t: eval(t, {"np": np, "x": x}) for t in texts}

    want = every(A)
    for label, found in (("eager", every(pirkit.tensor(A))), ("traced", pirkit.jit(every)(A))):
        for text in texts:
            np.testing.assert_allclose(found[text], want[text], err_msg=f"{label} {text}")
            assert np.asarray(found[text]).dtype == np.asarray(want[text]).dtype, (label, text)


CUBE: Final = np.arange(1, 25.0).reshape(2, 3, 4)
INDICES: Final = (
    "k  k,0  :,k  ...,k  i,j  :,i  i,:,j  0,:,i  :,i,j  k,:,k  None,k,1:  ...,None,i  [k,k]"
    "  :,[0,2],k  i,1:,i  ::-1,k  -k  i,-1,j  k,...,1"
).split("  ")


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
def test_traced_integers_index_any_axis(dtype: str) -> None:
    last = 1 if dtype == "uint8" else -1
    given = (CUBE, np.array([1, 0], dtype), np.array([[2], [last]], dtype), 1)

    def every(x: Any, i: Any, j: Any, k: Any) -> list[Any]:
        return [eval(f"x[{t}]", {"x": x, "i": i, "j": j, "k": k}) for t in INDICES]

    want = every(*given)
    for name, found, y in zip(INDICES, pirkit.jit(every)(*given), want, strict=True):
        np.testing.assert_array_equal(found, y, err_msg=name)


@pytest.mark.parametrize("mode", ["raise", "clip", "wrap"])
def test_take_at_indices_of_few_bits(mode: Any) -> None:
    x, i = np.arange(300.0), np.array([0, 255], np.uint8)
    found = pirkit.jit(lambda x, i: pnp.take(x, i, mode=mode))(x, i)
    np.testing.assert_array_equal(found, x[i])


@pytest.mark.parametrize("index", ["i + 5", "0, i + 5", "i - 5"])
def test_a_traced_index_out_of_range_raises(index: str) -> None:
    taken = pirkit.jit(lambda x, i: eval(f"x[{index}]", {"x": x, "i": i}))
    with pytest.raises(PirkitError, match="index"):
        taken(CUBE, 1)
    put = pirkit.jit(lambda x, i: eval(f"x.at[{index}].set(0)", {"x": x, "i": i}))
    with pytest.raises(PirkitError, match="index"):
        put(CUBE, 1)


@pytest.mark.parametrize("index", ["x > 1", "k, x > 1", "k:k + 2"])
def test_indices_whose_result_has_an_unknown_size_are_refused(index: str) -> None:
    with pytest.raises(TraceError) as caught:
        pirkit.jit(lambda x, k: eval(f"x[{index}]", {"x": x, "k": k}))(CUBE, 1)
    assert caught.value.help


WAYS: Final = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")
PLACES: Final = ("k", "k, 0", "..., k", "1:", "::-1", "0", "-1, ::2", "m")


@pytest.mark.parametrize("place", PLACES)
def test_updates_are_those_of_numpy(place: str) -> None:
    def updated(x: Any, k: Any, m: Any) -> Any:
        at = eval(f"x.at[{place}]", {"x": x, "k": k, "m": m})
        return [getattr(at, how)(2.5) for how in WAYS]

    def assigned(how: str) -> Any:
        names: dict[str, Any] = {"x": A.copy(), "k": 1, "m": A > 0}
        combine = {"set": "2.5", "min": "np.minimum(x[P], 2.5)", "max": "np.maximum(x[P], 2.5)"}
        sign = dict(add="+", subtract="-", multiply="*", divide="/", power="**").get(how)
        text = combine.get(how, f"x[P] {sign} 2.5").replace("P", place)
        exec(f"x[{place}] = {text}", {"np": np}, names)
        return names["x"]

    with np.errstate(invalid="ignore"):
        want = [assigned(how) for how in WAYS]
    for found in (updated(pirkit.tensor(A), 1, A > 0), pirkit.jit(updated)(A, 1, A > 0)):
        for how, x, y in zip(WAYS, found, want, strict=True):
            np.testing.assert_allclose(x, y, err_msg=how)


def test_updates_at_places_that_are_named_twice() -> None:
    twice = np.array([1, 1, 0])

    def f(x: Any, at: Any) -> Any:
        return x.at[at].add(x[:3] * 2), x.at[at].max(5.0), x.at[at].multiply(2.0)

    x = np.arange(4.0)
    want = np.array([4.0, 3.0, 2.0, 3.0]), np.array([5.0, 5, 2, 3]), np.array([0.0, 4, 2, 3])
    for found in (f(pirkit.tensor(x), twice), pirkit.jit(f)(x, twice)):
        for got, y in zip(found, want, strict=True):
            np.testing.assert_allclose(got, y)
    with pytest.raises(TraceError, match="named twice"):
        pirkit.jit(lambda x, i: x.at[i].divide(2.0))(x, twice)


def test_updates_have_derivatives_and_rows_and_loops() -> None:
    def f(x: Any, i: Any) -> Any:
        return (x.at[i].set(x[0] * 3).at[1].add(x[2]) ** 2).sum()

    x = np.array([1.0, 2.0, 3.0])  # (x0, x1 + x2, 3 x0) for i = 2
    np.testing.assert_allclose(pirkit.grad(f)(x, 2), [20.0, 10.0, 10.0])
    np.testing.assert_allclose(pirkit.jit(pirkit.grad(f))(x, 2), [20.0, 10.0, 10.0])
    rows = pirkit.vmap(lambda i: pnp.zeros(3).at[i].set(1.0))(np.array([2, 0]))
    np.testing.assert_allclose(rows, [[0, 0, 1], [1, 0, 0]])
    filled = pirkit.fori_loop(0, 3, lambda i, a: a.at[i].set(i * 1.0), np.zeros(3))
    np.testing.assert_allclose(filled, [0, 1, 2])


@pytest.mark.parametrize("given", ["bool", "int8", "int32", "uint8", "float32"])
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "mean"])
def test_dtypes_of_results(name: str, given: str) -> None:
    """A result has the `dtype` that was asked for, whatever the op accumulates in."""
    x = np.arange(6).reshape(2, 3).astype(given)
    for wanted in ("int16", "int32", "int64", "float32", "float64"):
        if name == "mean" and wanted.startswith("int"):
            continue
        expected = getattr(np, name)(x, axis=1, dtype=wanted)
        found = pirkit.jit(lambda x, w=wanted: getattr(np, name)(x, axis=1, dtype=w))(x)
        assert found.dtype.name == expected.dtype.name
        np.testing.assert_array_equal(found, expected)


def test_a_variance_in_integers_is_refused() -> None:
    with pytest.raises(TraceError, match="variance"):
        pirkit.jit(lambda x: np.var(x, dtype="int32"))(np.arange(3))


def elements_made(function: Callable[..., Any], *args: Any) -> int:
    """Elements of the largest tensor of the decomposed program."""
    program = pirkit.run_passes(pirkit.jit(function).lower(*args), "decompose")
    shapes = re.findall(r"tensor<((?:\d+x)+)", str(program))
    return max(math.prod(map(int, shape[:-1].split("x"))) for shape in shapes)


@pytest.mark.parametrize("equation", ["ij,kj,k->i", "k,ij,kj->i", "kj,ij,k->i"])
def test_einsum_multiplies_small_operands_first(equation: str) -> None:
    """In other orders there would be a matrix of 20 x 30, or more."""
    sizes = {"i": 20, "j": 3, "k": 30}
    args = [np.ones([sizes[a] for a in t]) for t in equation.partition("->")[0].split(",")]
    assert elements_made(lambda *a: np.einsum(equation, *a), *args) == 90


def test_einsum_makes_the_smaller_of_equal_products() -> None:
    """The matrix times a vector, not the product of the two vectors."""
    args = [np.ones(20), np.ones(30), np.ones((20, 30))]
    program = pirkit.jit(lambda *a: np.einsum("i,j,ij->", *a)).lower(*args)
    assert "pd_op.multiply" not in str(pirkit.run_passes(program, "decompose"))


def test_multi_dot_multiplies_small_factors_first() -> None:
    factors = [np.ones(shape) for shape in ((20, 30), (30, 40), (40, 2), (2,))]
    assert elements_made(lambda *a: np.linalg.multi_dot(a), *factors) == 1200


def test_an_index_array_along_one_axis_is_as_long_as_the_axis() -> None:
    assert elements_made(lambda x: x[:, np.array([3, 1, 2])], np.ones((50, 60))) == 3000
    program = pirkit.jit(lambda x: np.pad(x, 2, mode="reflect")).lower(np.ones((50, 60)))
    assert "tensor<64xi32>" in str(program)
    assert "tensor<3456xi" not in str(program)
    assert "gather" not in str(pirkit.jit(lambda x: x[np.arange(3, 9)]).lower(np.ones(20)))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("value", [1j, np.array([1j, 2]), np.complex64(2)])
def test_a_complex_value_is_not_stored_in_a_real_tensor(compiled: bool, value: Any) -> None:
    f: Any = lambda x: x.at[:2].set(value)  # noqa: E731
    with pytest.raises(PirkitError, match="loses its imaginary part"):
        (pirkit.jit(f) if compiled else f)(pirkit.tensor(np.zeros(3)))


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int16"])
@pytest.mark.parametrize("how", ["add", "multiply", "min", "max"])
def test_updates_of_narrow_integers_at_the_same_place(kind: str, how: str) -> None:
    x, at = np.array([1, 0, 100, 7]).astype(kind), np.array([0, 2, 2, 0])
    update = lambda x: getattr(x.at[at], how)(x)  # noqa: E731
    found = pirkit.jit(update)(x)
    np.testing.assert_array_equal(found, update(pirkit.tensor(x)))
    assert found.dtype == kind


def test_a_histogram_of_a_range_that_the_type_cannot_divide() -> None:
    """numpy refuses it too: some edges would be equal."""
    x = np.ones(3, np.float32)
    for call in (pnp.histogram, pirkit.jit(lambda x, **how: pnp.histogram(x, 3, (1, 1 + 1e-9)))):
        with pytest.raises((ValueError, PirkitError)):
            call(x, bins=3, range=(1, 1 + 1e-9))


def test_a_vandermonde_matrix_has_the_type_of_a_product_with_integers() -> None:
    for kind in ("float16", "int8", "float32", "bool"):
        x = np.array([1, 0, 1]).astype(kind)
        assert pirkit.jit(lambda x: pnp.vander(x, 2))(x).dtype == np.vander(x, 2).dtype


@pytest.mark.parametrize("kind", ["float16", "float32", "int64", "complex64"])
def test_covariances_are_computed_in_double_precision(kind: str) -> None:
    x = np.array([[1, 2, 4], [3, 1, 0]]).astype(kind)
    for name in ("cov",) if kind == "complex64" else ("cov", "corrcoef"):
        found = np.asarray(pirkit.jit(getattr(pnp, name))(x))
        wanted = getattr(np, name)(x)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
