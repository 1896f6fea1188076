"""Random numbers from keys: known answers, JAX's bits, statistics, the same numbers anywhere."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops, random
from pirkit.diag.errors import UsageError

KEY: Final = random.key(42)
LOGITS: Final = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
ANSWERS: Final = (
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)
"""Key, counter and words of Threefry-2x32 with 20 rounds, from Random123."""


def words(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x).view(np.uint32)


@pytest.mark.parametrize(("key", "counter", "wanted"), ANSWERS)
def test_known_answers(key: Any, counter: Any, wanted: Any) -> None:
    given = [np.array([v], np.uint32).view(np.int32) for v in (*key, *counter)]

    def both(*given: Any) -> Any:
        return ops.threefry(*given), ops.threefry(*given, word=1)

    program = pirkit.trace(both, *given)
    inputs = dict(zip((p.name for p in pirkit.compile(program).plan.inputs), given, strict=True))
    for options in ({}, {"backend": "reference"}, {"fused": "nest"}):
        found = pirkit.compile(program, **options).run(inputs)
        assert tuple(int(words(found[f"y{i}"])[0]) for i in (0, 1)) == wanted


CHANCES: Final = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
BITS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "split": (lambda k: random.split(k, 3), lambda j, k: j.key_data(j.split(k, 3))),
    "split to a matrix": (
        lambda k: random.split(k, (2, 2)), lambda j, k: j.key_data(j.split(k, (2, 2)))),
    "fold_in": (lambda k: random.fold_in(k, 7), lambda j, k: j.key_data(j.fold_in(k, 7))),
    "bits": (lambda k: random.bits(k, (5, 3)), lambda j, k: j.bits(k, (5, 3))),
    "uniform": (lambda k: random.uniform(k, (257,)), lambda j, k: j.uniform(k, (257,))),
    "a range": (
        lambda k: random.uniform(k, (257,), minval=-1.3, maxval=2.7),
        lambda j, k: j.uniform(k, (257,), minval=-1.3, maxval=2.7)),
    "bernoulli": (
        lambda k: random.bernoulli(k, 0.3, (99,)), lambda j, k: j.bernoulli(k, 0.3, (99,))),
    "randint": (
        lambda k: random.randint(k, (99,), -5, 1000), lambda j, k: j.randint(k, (99,), -5, 1000)),
    "permutation": (lambda k: random.permutation(k, 100), lambda j, k: j.permutation(k, 100)),
    "permutation of columns": (
        lambda k: random.permutation(k, LOGITS, axis=1),
        lambda j, k: j.permutation(k, LOGITS, axis=1)),
    "categorical": (lambda k: random.categorical(k, LOGITS), lambda j, k: j.categorical(k, LOGITS)),
    **{f"choice {o}": (
        lambda k, o=o: random.choice(k, 4, (3,), **o), lambda j, k, o=o: j.choice(k, 4, (3,), **o))
       for o in ({}, {"replace": False}, {"p": CHANCES}, {"p": CHANCES, "replace": False})},
    "choice of columns": (
        lambda k: pirkit.jit(lambda k: random.choice(k, LOGITS, (2, 1), axis=1))(k),
        lambda j, k: j.choice(k, LOGITS, (2, 1), axis=1)),
    "categorical of columns": (
        lambda k: random.categorical(k, LOGITS, axis=0, shape=(9, 5)),
        lambda j, k: j.categorical(k, LOGITS, axis=0, shape=(9, 5))),
}  # fmt: skip
ROUNDED: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "normal": (lambda k: random.normal(k, (999,)), lambda j, k: j.normal(k, (999,))),
    "truncated_normal": (
        lambda k: random.truncated_normal(k, -1.0, 2.0, (999,)),
        lambda j, k: j.truncated_normal(k, -1.0, 2.0, (999,))),
    "exponential": (lambda k: random.exponential(k, (999,)), lambda j, k: j.exponential(k, (999,))),
    "gumbel": (lambda k: random.gumbel(k, (999,)), lambda j, k: j.gumbel(k, (999,))),
}  # fmt: skip


def _theirs(call: Callable[..., Any]) -> np.ndarray[Any, Any]:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        return np.asarray(call(jax.random, jax.random.key(42)))


@pytest.mark.parametrize("name", BITS)
def test_the_bits_are_those_of_jax(name: str) -> None:
    ours, theirs = BITS[name]
    found, wanted = np.asarray(ours(KEY)), _theirs(theirs)
    np.testing.assert_array_equal(found.view(np.uint32) if wanted.dtype == np.uint32 else found,
                                  wanted)  # fmt: skip


@pytest.mark.parametrize("name", ROUNDED)
def test_the_numbers_are_those_of_jax(name: str) -> None:
    ours, theirs = ROUNDED[name]
    np.testing.assert_allclose(np.asarray(ours(KEY)), _theirs(theirs), rtol=1e-5, atol=1e-6)


def test_double_precision_is_that_of_jax() -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        key = jax.random.key(42)
        uniform = np.asarray(jax.random.uniform(key, (99,), np.float64))
        normal = np.asarray(jax.random.normal(key, (99,), np.float64))
    np.testing.assert_array_equal(random.uniform(KEY, (99,), "float64"), uniform)
    np.testing.assert_allclose(random.normal(KEY, (99,), "float64"), normal, rtol=1e-12)


# --- the same numbers anywhere ---


def test_eager_compiled_threads_and_rows_agree() -> None:
    def draw(key: Any) -> Any:
        first, second = random.split(key)
        return random.uniform(first, (7,)), random.normal(second, (7,), "float64")

    wanted = [np.asarray(v) for v in draw(KEY)]
    with ThreadPoolExecutor(4) as pool:
        ways = [pirkit.jit(draw)(KEY), *pool.map(draw, [KEY] * 8)]
    keys = np.stack([np.asarray(random.split(KEY, 3)[1]), np.asarray(KEY)])
    ways.append([v[1] for v in pirkit.vmap(draw)(keys)])
    ways.append([v[1] for v in pirkit.jit(pirkit.vmap(draw))(keys)])
    for uniform, normal in ways:
        np.testing.assert_array_equal(uniform, wanted[0])
        # the library rounds the inverse error function otherwise than native code
        np.testing.assert_allclose(normal, wanted[1], rtol=1e-14)


@pytest.mark.parametrize("options", [{"backend": "reference"}, {"fused": "nest"}, {"prim": True}])
def test_backends_agree(options: Any) -> None:
    program = pirkit.trace(lambda k: random.uniform(k, (50,), "float64"), KEY)
    found = pirkit.compile(program, **options).run({"k": np.asarray(KEY)})["y0"]
    np.testing.assert_array_equal(found, random.uniform(KEY, (50,), "float64"))


def test_loops_draw_from_keys() -> None:
    def turn(key: Any, _: Any) -> Any:
        key, sub = random.split(key)
        return key, random.uniform(sub, ())

    _, found = pirkit.scan(turn, KEY, None, length=4)
    key, wanted = KEY, list[float]()
    for _ in range(4):
        key, sub = random.split(key)
        wanted.append(float(random.uniform(sub)))
    np.testing.assert_array_equal(np.asarray(found), np.float32(wanted))


def test_seeds_may_be_traced() -> None:
    for seed in (0, 42, 2**40 + 17, -1):
        found = pirkit.jit(lambda s: random.key(s))(np.int64(seed))
        np.testing.assert_array_equal(found, random.key(seed))
    np.testing.assert_array_equal(words(random.key(2**40 + 17)), [2**8, 17])


# --- statistics ---

MOMENTS: Final[dict[str, tuple[Any, float, float]]] = {
    "uniform": (lambda k, n: random.uniform(k, n, minval=-1.0, maxval=3.0), 1.0, 4 / np.sqrt(12)),
    "normal": (random.normal, 0.0, 1.0),
    "normal64": (lambda k, n: random.normal(k, n, "float64"), 0.0, 1.0),
    "exponential": (random.exponential, 1.0, 1.0),
    "gumbel": (random.gumbel, 0.5772156649, np.pi / np.sqrt(6)),
    "bernoulli": (lambda k, n: random.bernoulli(k, 0.3, n), 0.3, np.sqrt(0.21)),
    "randint": (lambda k, n: random.randint(k, n, -3, 7), 1.5, np.sqrt(99 / 12)),
    "truncated": (lambda k, n: random.truncated_normal(k, -1.0, 1.0, n), 0.0, 0.5396),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name: str) -> None:
    draw, mean, deviation = MOMENTS[name]
    count = 100_000
    found = np.asarray(draw(random.key(7), count)).astype(np.float64)
    error = deviation / np.sqrt(count)
    assert abs(found.mean() - mean) < 4 * error
    assert abs(found.std() - deviation) < 5 * error + 1e-4


@pytest.mark.parametrize("low", [2.0, 5.0, 9.0, 40.0])
@pytest.mark.parametrize("width", [1.0, np.inf])
@pytest.mark.parametrize("sign", [1, -1])
def test_truncated_numbers_lie_between_bounds_far_from_the_mean(
    low: float, width: float, sign: int
) -> None:
    a, b = sorted((sign * low, sign * (low + width)))
    law = {"mean": 0.0, "std": 1.0, "a": a, "b": b, "seed": 3}
    whole = np.asarray(ops.truncated_gaussian_random(shape=(999,), dtype="float64", **law))
    keyed = np.asarray(random.truncated_normal(KEY, a, b, (999,)))
    for found in (whole, keyed):
        assert np.all((a <= found) & (found <= b) & (np.abs(found) < low + 3))
    if 2 < low < 38:
        assert len(np.unique(whole)) == 999
        assert abs(np.abs(whole).mean() - low - 1 / low) < 0.2 / low + 0.01


def test_keys_are_independent() -> None:
    rows = pirkit.vmap(lambda k: random.normal(k, (2000,)))(random.split(KEY, 6))
    correlation = np.corrcoef(np.asarray(rows)) - np.eye(6)
    assert np.abs(correlation).max() < 0.1


def test_categorical_has_the_probabilities() -> None:
    chances = np.array([0.1, 0.2, 0.7])
    found = np.asarray(random.categorical(KEY, np.log(chances), shape=(50_000,)))
    np.testing.assert_allclose(np.bincount(found, minlength=3) / found.size, chances, atol=0.01)


def test_permutations_are_permutations() -> None:
    found = [np.asarray(random.permutation(random.key(i), 50)) for i in range(3)]
    for each in found:
        np.testing.assert_array_equal(np.sort(each), np.arange(50))
    assert not np.array_equal(found[0], found[1])
    np.testing.assert_array_equal(random.permutation(KEY, 1), [0])


def test_derivatives_go_through_ranges() -> None:
    def f(scale: Any) -> Any:
        return (random.uniform(KEY, (8,), "float64", 0.0, scale) ** 2).sum()

    drawn = np.asarray(random.uniform(KEY, (8,), "float64"))
    np.testing.assert_allclose(pirkit.grad(f)(np.float64(3.0)), 6 * (drawn**2).sum())


WRONG: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "a seed": (lambda: random.uniform(42), "a key is"),
    "several keys": (lambda: random.uniform(random.split(KEY)), "a key is"),
    "floats": (lambda: random.uniform(np.ones(2)), "a key is"),
    "a dtype": (lambda: random.normal(KEY, 3, "int32"), "float32 or float64"),
    "integers": (lambda: random.randint(KEY, 3, 0, 9, "float32"), "draws integers"),
    "a shape": (lambda: random.normal(KEY, (-1,)), "no shape"),
    "too many": (lambda: random.choice(KEY, 3, (4,), replace=False), "4 of 3"),
    "a tail": (lambda: random.categorical(KEY, LOGITS, shape=(5,)), "no shape"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_told(name: str) -> None:
    call, text = WRONG[name]
    with pytest.raises(UsageError, match=text) as caught:
        call()
    assert caught.value.help
