"""What campaigns found, made small."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

import pirkit
import pirkit.numpy as pnp
from pirkit import ops
from pirkit.diag.errors import PirkitError
from pirkit.diag.settings import SETTINGS, chosen
from pirkit.dialect.program import Program
from pirkit.dialect.text import parse_mlir
from pirkit.frontend.safetensors_files import read_safetensors
from pirkit.runtime import dtype as dt
from pirkit.split import forward_backward
from tests.split.running import Halves
from tools.campaigns.oracle import Oracle


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
@pytest.mark.parametrize("top", [float("inf"), 2**63 - 1, 2**62 + 3])
def test_integer_bounds_beyond_what_a_float64_holds(pipeline: str, top: float) -> None:
    b = pirkit.ProgramBuilder()
    b.output("y", b("pd_op.clip", b.input("x", (3,), "int64"), min=-1.5, max=top))
    x = np.array([-2, 0, 2**63 - 1])
    found = pirkit.compile(b.finish(), pipeline=pipeline)(x=x)["y"]
    assert found.tolist() == [-1, 0, 2**63 - 1 if top > 2**62 + 3 else 2**62 + 3]


def test_a_large_integer_fills_a_tensor_exactly() -> None:
    n = 2**53 + 1
    found = pirkit.jit(lambda x: pnp.full_like(x, n))(np.arange(3))
    assert np.asarray(found).tolist() == [n] * 3


def test_boxes_that_images_do_not_account_for_are_refused() -> None:
    b = pirkit.ProgramBuilder()
    x, boxes = b.input("x", (2, 12, 6, 7), "float32"), b.input("boxes", (1, 4), "float32")
    number = b.input("number", (2,), "int32")
    sizes = {"pooled_height": 2, "pooled_width": 3, "output_channels": 2}
    b.output("y", b("pd_op.psroi_pool", x, boxes, number, **sizes, spatial_scale=1.0))
    run = pirkit.compile(b.finish(), pipeline="")
    given = {"x": np.ones((2, 12, 6, 7), "f4"), "boxes": np.ones((1, 4), "f4")}
    with pytest.raises(PirkitError, match="4 boxes in boxes_num, 1 in boxes"):
        run(**given, number=np.array([3, 1], np.int32))


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
def test_sums_of_exponentials_that_meet_infinities(pipeline: str) -> None:
    b = pirkit.ProgramBuilder()
    b.output("y", b("pd_op.logcumsumexp", b.input("x", (7,), "float64"), axis=0))
    x = np.array([-np.inf, -np.inf, 0.5, 1.0, np.inf, 2.0, np.inf])
    found = pirkit.compile(b.finish(), pipeline=pipeline)(x=x)["y"]
    np.testing.assert_allclose(found, np.logaddexp.accumulate(x), rtol=1e-12)


def test_runs_of_equal_rows_where_there_are_none() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (0, 2), "float32")
    b.output("y", b("pd_op.unique_consecutive", x, axis=(0,), dtype="int32")[0])
    run = pirkit.compile(b.finish(), backend="reference", pipeline="")
    assert run(x=np.ones((0, 2), "f4"))["y"].shape == (0, 2)


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
def test_shards_that_the_type_of_the_indices_cannot_count(pipeline: str) -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (3,), "int16")
    sizes = {"index_num": 2**31 - 1, "nshards": 2, "shard_id": 0, "ignore_value": -7}
    b.output("y", b("pd_op.shard_index", x, **sizes))
    run = pirkit.compile(b.finish(), pipeline=pipeline)
    assert run(x=np.array([0, 5, 2**15 - 1], np.int16))["y"].tolist() == [0, 5, 2**15 - 1]
    with pytest.raises(PirkitError, match="PK0901"):
        run(x=np.array([0, -1, 2], np.int16))


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
def test_lgamma_next_to_its_pole(pipeline: str) -> None:
    b = pirkit.ProgramBuilder()
    b.output("y", b.lgamma(b.input("x", (2,), "float64")))
    x = np.array([1e-310, 1e-305])
    found = pirkit.compile(b.finish(), pipeline=pipeline)(x=x)["y"]
    np.testing.assert_allclose(found, -np.log(x), rtol=1e-13)


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
def test_nothing_is_below_a_threshold_of_nan(pipeline: str) -> None:
    b = pirkit.ProgramBuilder()
    b.output("y", b("pd_op.hardshrink", b.input("x", (3,), "float32"), threshold=float("nan")))
    x = np.array([1.0, -2.0, 0.0], np.float32)
    assert np.array_equal(pirkit.compile(b.finish(), pipeline=pipeline)(x=x)["y"], x)


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
def test_sequences_longer_than_their_logits_have_no_loss(pipeline: str) -> None:
    b = pirkit.ProgramBuilder()
    x, label = b.input("x", (1, 2, 3, 4), "float32"), b.input("label", (1, 2), "int32")
    steps, count = b.input("steps", (1,), "int32"), b.input("count", (1,), "int32")
    b.output("y", b.warprnnt(x, label, steps, count)[0])
    run = pirkit.compile(b.finish(), pipeline=pipeline)

    def call(label: list[int], steps: int, count: int) -> None:
        given = {"label": [label], "steps": [steps], "count": [count]}
        run(x=np.ones((1, 2, 3, 4), "f4"), **{k: np.array(v, "i4") for k, v in given.items()})

    call([1, 9], 2, 1)
    for wrong in (([1, 2], 3, 2), ([1, 2], 0, 2), ([1, 2], 2, 3), ([1, 9], 2, 2)):
        with pytest.raises(PirkitError, match="PK0901"):
            call(*wrong)


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
def test_a_loss_of_sequences_in_float16_is_computed_in_float32(pipeline: str) -> None:
    """What is impossible was -inf in float16, so no way seemed possible, and the loss was 0."""
    b = pirkit.ProgramBuilder()
    x, label = b.input("x", (3, 1, 3), "float16"), b.input("label", (1, 1), "int32")
    steps, count = b.input("steps", (1,), "int64"), b.input("count", (1,), "int64")
    b.output("y", b.warpctc(x, label, steps, count, blank=2)[0])
    given = {"label": np.zeros((1, 1), "i4"), "steps": np.array([3]), "count": np.array([1])}
    logits = np.linspace(-1, 1, 9).reshape(3, 1, 3).astype(np.float16)
    found = pirkit.compile(b.finish(), pipeline=pipeline)(x=logits, **given)["y"]
    assert found.dtype == np.float16
    odds = np.exp(logits[:, 0].astype(np.float64))
    odds /= odds.sum(-1, keepdims=True)
    ways = [(0, 2, 2), (2, 0, 2), (2, 2, 0), (0, 0, 2), (2, 0, 0), (0, 0, 0)]
    wanted = -np.log(sum(odds[0, i] * odds[1, j] * odds[2, k] for i, j, k in ways))
    np.testing.assert_allclose(found, [[wanted]], rtol=1e-3)


def _refuses(b: pirkit.ProgramBuilder, pipeline: str, code: str = "PK0901", **given: Any) -> None:
    run = pirkit.compile(b.finish(), pipeline=pipeline)
    with pytest.raises(PirkitError) as refusal:
        run(**{n: np.asarray(a) for n, a in given.items()})
    assert refusal.value.code == code


def _looked_up(how: str, b: pirkit.ProgramBuilder) -> Any:
    """A value of which axis 0 has one element, or the same ones again."""
    x = b.input("x", (4, 1), "float32")
    match how:
        case "computed":
            return b.transpose(x, perm=(1, 0)) * 2.0
        case "expanded":
            return b.expand(x, shape=(3, 4, 5)) * 2.0
        case "reshaped":
            return b.reshape(x, shape=(1, 4))
        case "summed":
            return b.sum(x, axis=(0,))
        case _:
            again = b.input("again", (1,), "int64")
            return b.gather(b.transpose(x, perm=(1, 0)), again, axis=0)


@pytest.mark.parametrize("fused", ["native", "nest", "interpret"])
@pytest.mark.parametrize("how", ["computed", "expanded", "reshaped", "summed", "looked up"])
def test_lookups_in_one_element_are_compared_with_its_bounds(how: str, fused: str) -> None:
    b = pirkit.ProgramBuilder()
    b.output("y", b.gather(_looked_up(how, b), b.input("place", (1,), "int64"), axis=0))
    run = pirkit.compile(b.finish(), pipeline="@default", fused=fused)
    given = {"x": np.ones((4, 1), "f4"), "again": np.array([0])}
    given = {p.name: given[p.name] for p in run.plan.inputs if p.name in given}
    assert run(**given, place=np.array([-1]))["y"].shape[0] == 1
    with pytest.raises(PirkitError, match=r"an index does not lie|outside"):
        run(**given, place=np.array([70]))


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
@pytest.mark.parametrize("label", [-1, 5, 2**40])
def test_labels_of_a_hierarchical_sigmoid_that_are_no_class(pipeline: str, label: int) -> None:
    b = pirkit.ProgramBuilder()
    x, w = b.input("x", (1, 4), "float32"), b.input("w", (4, 4), "float32")
    y = b("pd_op.hsigmoid_loss", x, b.input("label", (1, 1), "int64"), w, num_classes=5,
          is_sparse=False)  # fmt: skip
    b.output("y", y[0])
    _refuses(b, pipeline, x=np.ones((1, 4), "f4"), w=np.ones((4, 4), "f4"), label=[[label]])


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
@pytest.mark.parametrize(("repeats", "size"), [((1, 2), 4), ((1, 2), 2), ((-1, 2), -1)])
def test_repeats_that_do_not_add_up(pipeline: str, repeats: tuple[int, ...], size: int) -> None:
    b = pirkit.ProgramBuilder()
    x, n = b.input("x", (2, 3), "float32"), b.input("n", (2,), "int64")
    name = "pd_op.repeat_interleave_with_tensor_index"
    b.output("y", b(name, x, n, axis=0, output_size=size))
    _refuses(b, pipeline, x=np.ones((2, 3), "f4"), n=repeats)


def test_lists_of_more_parts_than_memory_holds_are_refused() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (0, 2**31 - 1), "float64")
    for name, axis, more in (
        ("split_with_num", 0, {"num": 2**31 - 1}),
        ("unbind", 1, {}),
        ("unstack", 1, {"num": 2**31 - 1}),
    ):
        with pytest.raises(PirkitError, match="list_elements"):
            b("pd_op." + name, x, axis=axis, **more)


def test_weights_of_a_size_that_arrays_cannot_have_are_refused(tmp_path: Path) -> None:
    head = b'{"x":{"dtype":"F32","shape":[0,9223372036854775808],"data_offsets":[0,0]}}'
    (tmp_path / "w.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    with pytest.raises(PirkitError) as refusal:
        read_safetensors(str(tmp_path / "w.safetensors"))
    assert refusal.value.code == "PK0504"


def test_the_oracle_takes_no_write_for_a_write_of_what_is_there() -> None:
    b = pirkit.ProgramBuilder()
    x, held = b.input("x", (3, 2), "float64"), [b.input(n, (2,), "float64") for n in "mvst"]
    flags = {"use_global_stats": False, "trainable_statistics": False, "data_format": "NCHW"}
    y = b("pd_op.sync_batch_norm_", x, *held, is_test=True, momentum=0.9, epsilon=1e-5, **flags)
    b.output("y", y[0])
    rows = {n: np.array([1.0, 2.0]) for n in "mvst"}
    oracle = Oracle(b.finish(), {"x": np.ones((3, 2)), **rows})
    assert oracle.difference({"y": oracle.want["y"]}) is None
    oracle.want["m"] = oracle.want["m"] + 1
    assert oracle.difference({"y": oracle.want["y"]}) == ("wrong", "m is missing")


@pytest.mark.parametrize("variable", ["PIRKIT_SANITIZE", "PIRKIT_NATIVE_CACHE"])
def test_settings_of_the_environment_that_are_none_are_refused(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("", *next(s.choices for s in SETTINGS.values() if s.variable == variable)):
        monkeypatch.setenv(variable, value)
        assert chosen(variable) == value
    monkeypatch.setenv(variable, "maybe")
    with pytest.raises(PirkitError) as refusal:
        chosen(variable)
    assert refusal.value.code == "PK0705"


@pytest.mark.parametrize("pipeline", ["", "@default", "@fused"])
def test_transposed_convolutions_of_filters_without_elements(pipeline: str) -> None:
    b = pirkit.ProgramBuilder()
    x, filter = b.input("x", (2, 4, 3, 5), "float32"), b.input("w", (4, 3, 4, 0), "float32")
    sizes = {"strides": (2, 2), "output_padding": (1, 1), "groups": 2}
    b.output("y", b("pd_op.conv2d_transpose", x, filter, **sizes))
    given = {"x": np.ones((2, 4, 3, 5), "f4"), "w": np.ones((4, 3, 4, 0), "f4")}
    assert not pirkit.compile(b.finish(), pipeline=pipeline)(**given)["y"].any()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("op", "given"),
    [("nearest", [0, 2]), ("bilinear", [1, -(2**31)]), ("bicubic", [-1, 2]), ("nearest", [np.inf]),
     ("bilinear", [0.0]), ("nearest", [0.1])],
)  # fmt: skip
def test_images_resized_to_sizes_that_are_none(op: str, given: list[float], backend: str) -> None:
    """Sizes are known when the program runs; each backend refuses them."""
    b = pirkit.ProgramBuilder()
    x = b.input("x", (2, 3, 5, 4), "float32")
    kind = np.int32 if len(given) == 2 else np.float32
    size = b.input("size", (len(given),), np.dtype(kind).name)
    operands = (x, size) if len(given) == 2 else (x, None, None, size)
    b.output("y", b(f"pd_op.{op}_interp", *operands, interp_method=op))
    exe = pirkit.compile(b.finish(), backend=backend)
    with pytest.raises(PirkitError, match="PK0901"):
        exe(x=np.ones((2, 3, 5, 4), "f4"), size=np.array(given, kind))


@pytest.mark.parametrize("dtype", ["bool", "complex128"])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_images_of_any_element_type_keep_their_elements(dtype: str, backend: str) -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (1, 1, 2, 2), dtype)
    b.output("y", b("pd_op.nearest_interp", x, interp_method="nearest", out_h=3, out_w=5))
    image = np.array([[[[0, np.inf], [1, 0]]]], dtype)
    found = pirkit.compile(b.finish(), backend=backend)(x=image)["y"]
    assert found.dtype == image.dtype
    assert not np.isnan(found).any()


def test_more_steps_of_the_power_method_than_a_loop_may_have_are_refused() -> None:
    b = pirkit.ProgramBuilder()
    given = [b.input(n, s, "float32") for n, s in (("x", (3, 4)), ("u", (3,)), ("v", (4,)))]
    with pytest.raises(PirkitError, match="loop_steps"):
        b("pd_op.spectral_norm", *given, power_iters=2**31 - 1)


@pytest.mark.parametrize("pipeline", ["", "@fused"])
def test_regions_with_edges_that_are_no_numbers_are_outside(pipeline: str) -> None:
    b = pirkit.ProgramBuilder()
    x, boxes = b.input("x", (1, 1, 6, 7), "float32"), b.input("boxes", (2, 4), "float32")
    sizes = {"pooled_height": 2, "pooled_width": 2, "sampling_ratio": 2, "spatial_scale": 1.0}
    number = b.input("number", (1,), "int32")
    b.output("y", b("pd_op.roi_align", x, boxes, number, **sizes, aligned=True))
    given = {"x": np.ones((1, 1, 6, 7), "f4"), "number": np.array([2], np.int32)}
    edges = np.array([[0.5, 0.5, 3, 3], [np.nan, 1, 4, 4]], "f4")
    program = b.finish()
    for backend in ("reference", "cpu"):
        run = pirkit.compile(program, pipeline=pipeline, backend=backend)
        found = run(**given, boxes=edges)["y"]
        np.testing.assert_allclose(found[0], 1, rtol=1e-6)
        assert not found[1].any() or np.isnan(found[1]).all()


def test_rows_are_chosen_by_integers() -> None:
    b = pirkit.ProgramBuilder()
    x, index = b.input("x", (2, 2), "float32"), b.input("i", (2, 1), "complex64")
    with pytest.raises(PirkitError, match="`index` has dtype complex64"):
        b("pd_op.multiplex", [x, x], index)


CHANGING = {
    "reshape_": {"shape": (6,)}, "unsqueeze_": {"axis": [0]}, "cast_": {"dtype": "float64"},
    "transpose_": {"perm": (1, 0)}, "logical_not_": {},
}  # fmt: skip


@pytest.mark.parametrize("reads", ["an op", "an output", "a write", "a branch"])
@pytest.mark.parametrize("before", ["input", "share_data", "list", "view of a view"])
@pytest.mark.parametrize("name", CHANGING)
def test_what_a_write_gives_another_type_is_not_read_under_an_old_name(
    name: str, before: str, reads: str
) -> None:
    """The name is declared with the old type, so backends gave results of different shapes."""
    b = pirkit.ProgramBuilder()
    x = b.input("x", (2, 3), "float32")
    match before:
        case "share_data":
            old = b.share_data(x)
        case "view of a view":
            old = b.share_data(b.share_data(x))
        case "list":
            old = b.split_vec(b.combine([b.exp(x), x]))[1]
        case _:
            old = x
    if reads == "an output":  # which shows what is there at the end
        b.output("y", old)
    made = b(f"pd_op.{name}", old, **CHANGING[name])
    if reads == "an op":
        b.output("y", b.exp(old))
    elif reads == "a write":
        b("pd_op.tanh_", old)
    elif reads == "a branch":
        condition = b.input("c", (), "bool")
        b.output("y", pirkit.cond(condition, lambda: b.exp(old), lambda: b.exp(b.zeros_like(old))))
    b.output("z", made)
    with pytest.raises(PirkitError, match=f"`pd_op.{name}` has given it the type") as raised:
        b.finish()
    assert raised.value.code == "PK0208"


@pytest.mark.parametrize("pipeline", ["", "@default", None])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_writes_restore_a_shape_with_unknown_sizes(backend: str, pipeline: str | None) -> None:
    """`1x?` is alike to both `?x1` and `?x3`, so only the last write tells the shape."""
    b = pirkit.ProgramBuilder()
    x = b.input("x", (-1, 3), "float32")
    row = b.slice(x, axes=[0], starts=[1], ends=[2])
    flat = b("pd_op.flatten_", row, start_axis=0, stop_axis=1)
    b("pd_op.transpose_", b("pd_op.unsqueeze_", flat, axis=[1]), perm=(1, 0))
    b.output("y", b.tanh(row))
    run = pirkit.compile(b.finish(), pipeline=pipeline, backend=backend)
    given = np.arange(6, dtype="f4").reshape(2, 3) / 6
    np.testing.assert_allclose(run(x=given)["y"], np.tanh(given[1:]), rtol=1e-6)


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("state", [False, True])
def test_a_loop_gives_nothing_from_outside_another_type(name: str, state: bool) -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (2, 3), "float32")

    def turn(i: Any, s: Any) -> Any:
        b(f"pd_op.{name}", s if state else x, **CHANGING[name])
        return b("pd_op.full", shape=(2, 3), value=0.0, dtype="float32")

    b.output("y", pirkit.fori_loop(0, 2, turn, b.exp(x)))
    with pytest.raises(PirkitError, match="another type inside of a branch or a loop") as raised:
        b.finish()
    assert raised.value.code == "PK0208"


def test_a_loop_gives_what_it_has_made_another_type() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (2, 3), "float32")

    def turn(i: Any, s: Any) -> Any:
        flat = b("pd_op.flatten_", b.tanh(s), start_axis=0, stop_axis=1)
        return b("pd_op.reshape_", b.exp(flat), shape=(2, 3))

    b.output("y", pirkit.fori_loop(0, 3, turn, x))
    program, given = b.finish(), np.arange(6, dtype="f4").reshape(2, 3) / 6
    want = given
    for _ in range(3):
        want = np.exp(np.tanh(want))
    for pipeline, backend in (("", "reference"), ("", "cpu"), ("@default", "cpu"), (None, "cpu")):
        found = pirkit.compile(program, pipeline=pipeline, backend=backend)(x=given.copy())["y"]
        np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_elements_that_are_an_extremum_together_share_its_derivative(name: str) -> None:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    x = x if name.endswith("max") else -x
    found = pirkit.grad(lambda v: getattr(pirkit.ops, name)(v, axis=[1]).sum())(x)
    np.testing.assert_allclose(found, [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-12)


def test_a_list_in_a_loop_that_nothing_reads_holds_what_is_computed_around() -> None:
    b = pirkit.ProgramBuilder()
    x, y = b.input("x", (3, 4), "float32"), b.input("y", (4,), "float32")
    same = b.equal(b.exp(x), y)

    def turn(i: Any, s: Any) -> Any:
        b.combine([same, s])
        return b.tanh(s)

    b.output("z", pirkit.fori_loop(0, 2, turn, b.exp(x)))
    found = pirkit.compile(b.finish(), pipeline="functionalize,decompose,fuse")(
        x=np.zeros((3, 4), "f4"), y=np.ones(4, "f4")
    )["z"]
    np.testing.assert_allclose(found, np.tanh(np.tanh(np.ones((3, 4)))), rtol=1e-6)


def test_floating_functions_of_integers_with_the_batch_in_lanes() -> None:
    b = pirkit.ProgramBuilder()
    b.output("y", b.tile(b.sigmoid(b.input("n", (), "int64")), repeat_times=(2,)))
    found = pirkit.compile(b.finish(), batch_lanes=True)(n=np.int64(-3))["y"]
    np.testing.assert_allclose(found, [1 / (1 + np.exp(3))] * 2, rtol=1e-6)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_least_number_of_half_precision_begins_an_exclusive_scan(
    dtype: str, backend: str
) -> None:
    b = pirkit.ProgramBuilder()
    b.output("y", b.logcumsumexp(b.input("x", (2,), dtype), axis=0, exclusive=True))
    least = float(ml_dtypes.finfo(dtype).min)
    run = pirkit.compile(b.finish(), pipeline="@default", backend=backend)
    assert run(x=np.zeros(2, dtype))["y"].astype(np.float64).tolist() == [least, 0]


@pytest.mark.parametrize("given", [(3, 1), (0, 4)])
def test_values_that_do_not_fit_the_places_of_masks(given: tuple[int, ...]) -> None:
    """How many a mask chooses is known when it runs; numpy's words told of it."""
    run = pirkit.compile(_put_where(len(given)), pipeline="", backend="reference")
    told = f"shape {[*given]} of the value does not broadcast to [2, 4]"
    with pytest.raises(PirkitError, match=re.escape(f"`pd_op.index_put`: {told}")):
        run(x=np.ones((3, 4), "f4"), mask=[True, False, True], v=np.ones(given, "f4"))


@pytest.mark.parametrize("pipeline", ["", "decompose", "@default", "decompose,@default"])
def test_rows_for_a_mask_that_chooses_one(pipeline: str) -> None:
    """`expand` keeps what is expanded to 1, so that the last row was written, where decomposed."""
    run = pirkit.compile(_put_where(2), pipeline=pipeline)
    x, mask = np.ones((3, 4), "f4"), [False, True, False]
    assert run(x=x, mask=mask, v=np.zeros((1, 4), "f4"))["y"].tolist()[1] == [0] * 4
    with pytest.raises(PirkitError):
        run(x=x, mask=mask, v=np.ones((2, 4), "f4"))


def _put_where(rank: int) -> pirkit.Program:
    b = pirkit.ProgramBuilder()
    x, mask = b.input("x", (3, 4), "float32"), b.input("mask", (3,), "bool")
    b.output("y", b("pd_op.index_put", x, [mask], b.input("v", (-1,) * rank, "float32")))
    return b.finish()


def test_limits_of_bfloat16() -> None:
    """numpy's `finfo` knows no bfloat16, and its exception came out of tracing."""
    x = np.array([[np.inf, 0], [-np.inf, 1]], "bfloat16")
    most = float(ml_dtypes.finfo("bfloat16").max)
    found = pirkit.jit(pnp.nan_to_num)(x)
    assert np.asarray(found).astype(np.float64).tolist() == [[most, 0], [-most, 1]]
    assert int(pirkit.jit(pnp.linalg.matrix_rank)(np.eye(2).astype("bfloat16"))) == 2


def test_floating_functions_of_bools_with_the_batch_in_lanes() -> None:
    b = pirkit.ProgramBuilder()
    y, x = (b.input(name, (), "bool") for name in "yx")
    b.output("z", b.tile(b.atan2(y, x), repeat_times=(2,)))
    found = pirkit.compile(b.finish(), batch_lanes=True)(y=np.True_, x=np.False_)["z"]
    np.testing.assert_allclose(found, [np.pi / 2] * 2, rtol=1e-6)


PIPELINES: Final = ("", "@simplify", "decompose", "@simplify,functionalize", "@storage", "@default")


def agree(program: pirkit.Program, **given: Any) -> None:
    want = pirkit.compile(program, pipeline="", backend="reference").run(given)
    for pipeline in PIPELINES:
        found = pirkit.compile(program, pipeline=pipeline).run(given)
        for name, array in want.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-6, err_msg=pipeline)


def test_two_names_of_an_element_of_a_list_are_one_storage() -> None:
    b = pirkit.ProgramBuilder()
    halves = b("pd_op.split_with_num", b.input("x", (6,), "float64"), axis=0, num=2)
    one, other = (b("pir.slice", halves, index=1) for _ in range(2))
    b("pd_op.sqrt_", one)
    b.output("y", other)
    b.output("z", b("pd_op.concat", halves, axis=0))
    agree(b.finish(), x=np.arange(6.0))


@pytest.mark.parametrize("way", ["squeeze", "add_n"])
def test_a_copy_that_does_nothing_stays_where_it_is_overwritten(way: str) -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (3, 4), "float32")
    same = b.squeeze(x, axis=(0,)) if way == "squeeze" else b("pd_op.add_n", [x])
    b("pd_op.subtract_", same, same)
    b.output("y", b("pd_op.less_than", x, same))
    agree(b.finish(), x=np.arange(-6, 6, dtype="f4").reshape(3, 4))


@pytest.mark.parametrize("number", [-129, 128, 2**40, 2**63])
def test_numbers_beyond_the_element_type_of_traced_values(number: int) -> None:
    """numpy overflows, except in comparisons; they were taken modulo 256."""
    x = np.array([-128, 0, 127], "int8")
    for work in (np.add, np.minimum, lambda x, n: pnp.full_like(x, n), lambda x, n: n // x):
        with pytest.raises(PirkitError, match=f"{number} is beyond int8"):
            pirkit.jit(lambda x, work=work: work(x, number))(x)
    if number < 2**63:
        for compare in (np.less, np.greater_equal, np.equal, lambda x, n: n < x):
            found = pirkit.jit(lambda x, compare=compare: compare(x, number))(x)
            assert np.asarray(found).tolist() == compare(x, number).tolist()
    bounds = (number, 5) if number < 0 else (-5, number)
    found = pirkit.jit(lambda x: pnp.clip(x, *bounds))(x)
    assert np.asarray(found).tolist() == np.clip(x, *bounds).tolist()


@pytest.mark.parametrize("name", ["solve", "triangular_solve", "cholesky_solve"])
def test_solvers_take_one_element_type(name: str) -> None:
    """Ways gave the type of the one or the other operand."""
    b = pirkit.ProgramBuilder()
    x, y = b.input("x", (3, 3), "float64"), b.input("y", (3, 3), "float32")
    with pytest.raises(PirkitError, match="do not mix"):
        b(f"pd_op.{name}", x, y)


def test_bools_are_no_lengths() -> None:
    b = pirkit.ProgramBuilder()
    x, labels = b.input("x", (2, 3, 3, 4), "float32"), b.input("labels", (2, 2), "int32")
    lengths = b.input("lengths", (2,), "int32")
    with pytest.raises(PirkitError, match="`input_lengths` has dtype bool"):
        b("pd_op.warprnnt", x, labels, b.cast(lengths, dt.bool_), lengths)


def test_videos_windows_and_scatters_of_nothing() -> None:
    """One failed in its decomposition, one in its kernel, one in its reference."""
    b = pirkit.ProgramBuilder()
    video = b.input("video", (4, 2, 1, 0), "float32")
    b.output("a", b("pd_op.temporal_shift", video, seg_num=2, shift_ratio=0.4, data_format="NHWC"))
    image, filters = (
        b.input("image", (1, 2, 3, 4), "float32"),
        b.input("w", (3, 2, 3, 0), "float32"),
    )
    b.output("b", b("pd_op.conv2d", image, filters))
    x, places = b.input("x", (0,), "float32"), b.input("places", (0,), "int64")
    b.output("c", b("pd_op.scatter_nd_add", x, places, x))
    program = b.finish()
    sizes = {"video": (4, 2, 1, 0), "image": (1, 2, 3, 4), "w": (3, 2, 3, 0), "x": (0,)}
    given: dict[str, Any] = {name: np.ones(size, np.float32) for name, size in sizes.items()}
    given["places"] = np.ones(0, np.int64)
    for pipeline, backend in (("", "reference"), ("", "cpu"), ("@default", "cpu")):
        found = pirkit.compile(program, pipeline=pipeline, backend=backend)(**given)
        assert [found[n].shape for n in "abc"] == [(4, 2, 1, 0), (1, 3, 1, 5), (0,)]
        assert not found["b"].any()


def test_a_scale_without_a_bias_keeps_the_sign_of_zero() -> None:
    b = pirkit.ProgramBuilder()
    b.output(
        "y", b.atan2(b.input("x", (4,), "float32"), b.hardswish(b.input("z", (4,), "float32")))
    )
    agree(b.finish(), x=np.array([-0.0, 0, -4, 3], "f4"), z=np.array([-0.0, 0, -4, -3], "f4"))
    assert np.signbit(np.asarray(ops.scale(np.array([-0.0]), scale=2.0)))[0]


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
def test_images_of_large_integers(method: str) -> None:
    """They are interpolated in float64, so that the order of the sum hardly counts."""
    b = pirkit.ProgramBuilder()
    x = b.input("x", (1, 1, 4, 4), "int64")
    b.output("y", b(f"pd_op.{method}_interp", x, interp_method=method, out_h=3, out_w=3))
    program = b.finish()
    image = np.arange(16).reshape(1, 1, 4, 4) * 3 + 2**31 + 3
    found, want = (
        pirkit.compile(program, backend=backend)(x=image)["y"] for backend in ("cpu", "reference")
    )
    assert np.array_equal(found, want)
    assert abs(int(found[0, 0, 1, 1]) - int(image.mean())) < 3


NOTHING_BEHIND_AN_OPEN_SIZE: Final = """
pir.program @main(%p "p" : tensor<1xi64>, %x "x" : tensor<0xf64>) {
  %a = pd_op.create_array() {dtype = #pir.dtype<float64>} : () -> !pir.tensor_array<f64>
  %b = pd_op.array_write_(%a, %x, %p)
    : (!pir.tensor_array<f64>, tensor<0xf64>, tensor<1xi64>) -> !pir.tensor_array<f64>
  %r = pd_op.array_read(%a, %p) : (!pir.tensor_array<f64>, tensor<1xi64>) -> tensor<0xf64>
  %y = pd_op.unsqueeze(%r) {axis = array<i64: 0>} : (tensor<0xf64>) -> tensor<1x0xf64>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<1x0xf64>) -> ()
}
"""


@pytest.mark.parametrize("pipeline", ["", "decompose", "@default"])
def test_a_size_of_nothing_behind_one_that_is_open(pipeline: str) -> None:
    """What is read from an array has open sizes when memory is planned, and none of them is 0."""
    program = Program(parse_mlir(NOTHING_BEHIND_AN_OPEN_SIZE))
    found = pirkit.compile(program, pipeline=pipeline).run({"p": np.array([0]), "x": np.zeros(0)})
    assert np.asarray(found["y"]).shape == (1, 0)


@pytest.mark.parametrize("pipeline", ["", "decompose", "@default"])
def test_a_gradient_that_is_the_parameter_is_kept_before_both_are_written(pipeline: str) -> None:
    b = pirkit.ProgramBuilder()
    p, rate, d, y, n = (b.input(name, (1,), "float32") for name in ("p", "rate", "d", "y", "n"))
    _, _, kept, _ = b("pd_op.asgd_", p, p, rate, d, y, n)
    b.output("kept", kept)
    numbers = {"p": 2, "rate": 0.5, "d": 0.3, "y": 0.1, "n": 3}
    arrays = {name: np.full(1, number, "f4") for name, number in numbers.items()}
    found = pirkit.compile(b.finish(), pipeline=pipeline)(**arrays)["kept"]
    assert np.asarray(found).tolist() == [2]


A_LIST_IN_A_REGION: Final = """
pir.program @main(%x "x" : tensor<4xcomplex<f64>>) {
  %s, %i, %o = pir.stack_create() : () -> (!pir.stack, !pir.inlet, !pir.outlet)
  %l = pir.combine(%x) : (tensor<4xcomplex<f64>>) -> !pir.vec<tensor<4xcomplex<f64>>>
  %y = pd_op.concat(%l) {axis = 0 : i32}
    : (!pir.vec<tensor<4xcomplex<f64>>>) -> tensor<4xcomplex<f64>>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4xcomplex<f64>>) -> ()
  %h = pir.has_elements(%s) : (!pir.stack) -> tensor<1xi1>
}
"""


def test_a_call_of_a_library_in_native_code_takes_a_list() -> None:
    x = np.arange(4) + 1j
    found = pirkit.compile(Program(parse_mlir(A_LIST_IN_A_REGION)))(x=x)
    np.testing.assert_array_equal(found["y"], x)


def test_lanes_have_no_matmul_of_bools() -> None:
    b = pirkit.ProgramBuilder()
    b.input("rows", (16, 33), "float32")
    x, y = b.input("x", (16, 33), "bool"), b.input("y", (33, 4), "bool")
    b.output("z", b("pd_op.matmul", x, y))
    with pytest.raises(PirkitError, match="PK0407"):
        pirkit.compile(b.finish(), require_native=True)


def test_a_size_that_folding_finds_is_known_to_the_reader_of_a_kernel() -> None:
    """Native code took the sizes of a kernel for those of its declared result."""
    b = pirkit.ProgramBuilder()
    x = b.input("x", (1, 1, 2, 2, 2), "float32")
    scale = b.full(shape=(1,), value=1.5, dtype="float32")
    same = {"out_d": 0, "out_h": 0, "out_w": 0, "interp_method": "trilinear", "scale": []}
    b.output("y", b("pd_op.trilinear_interp", x, None, None, scale, align_corners=True, **same))
    program = b.finish()
    given = np.arange(8, dtype="f4").reshape(1, 1, 2, 2, 2)
    found = pirkit.jit(lambda x: program(x=x))(given)
    np.testing.assert_allclose(
        found, pirkit.compile(program, backend="reference")(x=given)["y"], rtol=1e-6
    )


def test_a_small_cholesky_spreads_nan() -> None:
    x = np.array([[np.nan, 1.0], [1.0, 3.0]])
    for function in (pirkit.ops.cholesky, pirkit.jit(pirkit.ops.cholesky)):
        assert np.isnan(function(x)[1, 1])


def test_a_value_of_no_dimensions_is_set_everywhere() -> None:
    b = pirkit.ProgramBuilder()
    x = b.input("x", (3, 4), "float32")
    none = {name: [] for name in ("starts", "ends", "steps", "axes", "decrease_axes", "none_axes")}
    b.output("y", b("pd_op.set_value", x, shape=[], values=[2.0], **none))
    program = b.finish()
    for backend in ("reference", "cpu"):
        found = pirkit.compile(program, pipeline="", backend=backend)(x=np.ones((3, 4), "f4"))
        np.testing.assert_array_equal(found["y"], np.full((3, 4), 2))


@pytest.mark.parametrize("mode", ["save-all", "free", "min-cut"])
def test_a_half_repeats_a_view_for_its_shape_and_its_old_version(mode: str) -> None:
    """The backward reads the shape of the view after it is written, and repeats it from before."""
    b = pirkit.ProgramBuilder()
    x, z = b.input("x", (-1,), "float64"), b.input("z", (-1,), "float64")
    before = b.sigmoid(x)
    b("pd_op.divide_", b.share_data(x), z)
    b.output("y", b.sigmoid(x))
    b.output("before", before)
    parts = forward_backward(b.finish(), mode=mode)
    halves = Halves(parts, {}, "")
    at, by = np.array([0.3, 0.7, 2.0]), np.array([2.0, 3.0, 0.5])
    halves.run({"x": at.copy(), "z": by})
    found = halves.gradients({position: np.ones(3) for _, position in parts.returns})

    def slope(a: Any) -> Any:
        s = 1 / (1 + np.exp(-a))
        return s * (1 - s)

    np.testing.assert_allclose(found["x"], slope(at / by) / by + slope(at), rtol=1e-12)
    np.testing.assert_allclose(found["z"], -slope(at / by) * at / by**2, rtol=1e-12)


def test_the_sign_of_zero_in_a_backward_transform_of_real_numbers() -> None:
    """A power of what lies on the cut of the logarithm shows it."""
    x = np.random.default_rng(0).random((3, 4)) - 2
    program = pirkit.trace(
        lambda x: ops.fft_r2c(
            x, axes=(1,), normalization="backward", forward=False, onesided=True
        ), x
    )  # fmt: skip
    for backend in ("reference", "cpu"):
        (found,) = pirkit.compile(program, backend=backend)(x=x).values()
        assert not np.signbit(found.imag[:, 0]).any()
        np.testing.assert_allclose(found, np.fft.ifft(x)[:, :3], atol=1e-12)


@pytest.mark.parametrize("from_outside", [False, True])
def test_rows_of_parameters_that_an_optimizer_updates(from_outside: bool) -> None:
    """The step was decomposed, and what it wrote was lost: later reads gave the old parameter."""

    def step(param: Any, gradient: Any) -> Any:
        held = param if from_outside else param + 1.0
        held = ops.sgd_(held, np.array([0.5]), gradient, None, multi_precision=False)
        return held * 2.0

    param, gradient = np.random.default_rng(0).random((2, 4, 3))
    found = np.asarray(pirkit.vmap(step)(param, gradient))
    np.testing.assert_allclose(found, 2 * (param + (not from_outside) - 0.5 * gradient))


def test_a_call_of_a_program_that_updates_its_input_is_refused() -> None:
    """A new value of an input would be lost; only in-place ops with a pure twin were seen."""
    b = pirkit.ProgramBuilder()
    param, gradient = (b.input(name, (3,), "float64") for name in ("param", "gradient"))
    rate = b.input("rate", (1,), "float64")
    b("pd_op.sgd_", param, rate, gradient, None, multi_precision=False)
    b.output("y", param)
    program = b.finish()
    with pytest.raises(PirkitError, match="the program writes `param`"):
        program(np.ones(3), np.ones(3), np.ones(1))


def test_a_write_to_a_tensor_from_around_a_traced_function_is_refused() -> None:
    """The function holds the tensor as a constant, which kept its content without a word."""
    param = pirkit.tensor(np.ones(3))

    def step(gradient: Any) -> Any:
        ops.sgd_(param, np.array([0.1]), gradient, None, multi_precision=False)
        return param * 1.0

    for transform in (pirkit.jit, pirkit.vmap):
        with pytest.raises(PirkitError, match=r"writes `param`, a tensor from outside"):
            transform(step)(np.ones((3, 3)))
    assert step(pirkit.tensor(np.ones(3))).numpy().tolist() == [0.9] * 3


@pytest.mark.parametrize("transform", [pirkit.jit, pirkit.vmap, pirkit.jacfwd, pirkit.jacrev])
@pytest.mark.parametrize("which", ["same", "factor", "whole", "part"])
def test_what_an_op_has_overwritten_is_not_read_while_tracing(transform: Any, which: str) -> None:
    """`x * 1` is recorded as `x`, `(x * 2) * 2` as `x * 4`, and parts are copies: such reads gave
    silently the old numbers, or a part the old ones and another the new ones."""

    def f(x: Any) -> Any:
        y = x * 1.0 if which == "same" else x * 2.0
        part = y[1:]
        result = ops.tanh_(part if which == "whole" else y)
        return result + {"same": x, "factor": y * 2.0, "whole": y, "part": part}[which]

    with pytest.raises(PirkitError, match=r"read after `pd_op.tanh_` has written it in place"):
        transform(f)(np.ones((4, 4)))
    if transform in (pirkit.jit, pirkit.vmap):
        found = transform(lambda x: ops.tanh_(x * 2.0) * 2.0)(np.ones((4, 4)))
        np.testing.assert_allclose(np.asarray(found), 2 * np.tanh(2 * np.ones((4, 4))))
