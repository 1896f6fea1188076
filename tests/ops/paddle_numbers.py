"""Numbers and gradients of ops as Paddle 3.3.1 computes them, recorded on small odd operands.

`python -m tests.ops.paddle_numbers` with Paddle installed writes `paddle_numbers.jsonl`: one call a
line, with its tensors, its attributes, the results, and the gradients of the results' sum with the
recorded weights. A call that Paddle refuses has a `refused` instead. `test_paddle_numbers.py` asks
the same of pirkit, where no Paddle is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from pirkit.dialect.opdef import lookup
from pirkit.dialect.samples import Sample
from tests.ops.calls import Call, complete

Array = np.ndarray[Any, Any]
FILE: Final = Path(__file__).with_name("paddle_numbers.jsonl")
RNG: Final = np.random.default_rng(20)
DIGITS: Final = 3
"""Digits behind the point of what is drawn, so that the file is short."""

Given = tuple[str, tuple[Any, ...], dict[str, Any]]


def normal(*shape: int, dtype: str = "float64") -> Array:
    return RNG.standard_normal(shape).round(DIGITS).astype(dtype)


def below(top: int, *shape: int, dtype: str = "int64") -> Array:
    return RNG.integers(0, top, shape).astype(dtype)


def boxes(*shape: int, size: float = 1.0) -> Array:
    """Corners of boxes, the upper left one first."""
    low, more = RNG.uniform(0, size, (*shape, 2)), RNG.uniform(0.1, 0.6, (*shape, 2)) * size
    return np.concatenate([low, low + more], -1).round(DIGITS)


def low_rank(rows: int, columns: int, rank: int) -> Array:
    return (RNG.integers(-2, 3, (rows, rank)) @ RNG.integers(-2, 3, (rank, columns))) * 1.0


def of_matrices() -> Iterator[Given]:
    symmetric = low_rank(4, 4, 2)
    symmetric = symmetric + symmetric.T
    for name in ("slogdet", "det"):
        for shape in ((1, 1), (2, 2), (3, 3), (2, 4, 4), (2, 1, 3, 3), (5, 5)):
            for dtype in ("float64", "float32"):
                yield name, (normal(*shape, dtype=dtype),), {}
        yield name, (np.diag([1e-3, -2.0, 5.0]),), {}
        yield name, (np.stack([np.zeros((2, 2)), np.eye(2)]),), {}
    matrices = (
        low_rank(3, 5, 2), low_rank(5, 3, 1), np.zeros((3, 3)), np.diag([1.0, 1e-5, 1e-9]),
        np.stack([low_rank(4, 4, 3), np.eye(4)]), normal(1, 1), symmetric, 1e-9 * np.eye(3),
    )  # fmt: skip
    for x in matrices:
        for dtype in ("float64", "float32"):
            held = x.astype(dtype)
            yield "matrix_rank", (held,), {"tol": 0.0, "use_default_tol": True}
            yield "matrix_rank", (held,), {"tol": 1e-4, "use_default_tol": False}
            for tol in (1e-4, 3.0):
                words = {"use_default_tol": False}
                yield "matrix_rank_tol", (held, np.array(tol, dtype)), words
            atol, rtol = np.array(0.01, dtype), np.array(0.3, dtype)
            yield "matrix_rank_atol_rtol", (held, atol, rtol), {}
            yield "matrix_rank_atol_rtol", (held, np.array(0.0, dtype), None), {}
    words = {"tol": 1e-4, "use_default_tol": False, "hermitian": True}
    yield "matrix_rank", (symmetric,), words
    yield "matrix_rank", (np.stack([symmetric, -np.eye(4)]),), words


def of_types() -> Iterator[Given]:
    """Sums and signs of types that have no fractions, and of those that have."""
    x = np.array([[3, -2, 0, 7], [1, 1, -5, 2]])
    for dtype in ("int32", "int64", "float32", "float64"):
        for words in ({"axis": [1]}, {"axis": [-2], "keepdim": True}, {"axis": [0, 1]}):
            yield "logsumexp", (x.astype(dtype),), words
        yield "logsumexp", (x.astype(dtype),), {"reduce_all": True}
        for porder in (2.0, 0.0, 1.0, 3.0, float("inf"), -float("inf")):
            yield "p_norm", (x.astype(dtype),), {"porder": porder, "axis": 0}
        yield "p_norm", (x.astype(dtype),), {"porder": 1.0, "asvector": True, "keepdim": True}
    for name in ("sign", "square"):
        for dtype in ("bool", "int8", "uint8", "int16", "int32", "int64", "float64"):
            yield name, (np.abs(x).astype(dtype) if dtype == "uint8" else x.astype(dtype),), {}
        yield name, (np.array([0.0, -0.0, np.inf, -np.inf, np.nan]),), {}
        yield name, (np.array([3 - 4j, 0j]),), {}


def of_images() -> Iterator[Given]:
    """Convolutions whose strides are longer than their filters, over padding."""
    conv: dict[str, Any] = {"padding_algorithm": "EXPLICIT", "data_format": "NCHW", "groups": 1}
    for stride, padding, kernel, size in (
        ([12, 12], [2, 2], (3, 3), (15, 13)), ([12, 5], [4, 0], (2, 3), (9, 20)),
        ([12, 12], [6, 6], (3, 1), (1, 12)), ([7, 12], [0, 3, 5, 1], (4, 3), (8, 13)),
    ):  # fmt: skip
        words = {**conv, "strides": stride, "paddings": padding, "dilations": [1, 1]}
        image = normal(1, 2, *size)
        yield "conv2d", (image, normal(3, 2, *kernel)), words
        yield "conv2d", (image, normal(2, 2, *kernel)), {**words, "dilations": [2, 2]}
        yield "depthwise_conv2d", (image, normal(2, 1, *kernel)), {**words, "groups": 2}
        few = normal(1, 2, 2, 2)
        more = {"output_size": [], "output_padding": []}
        yield "conv2d_transpose", (few, normal(2, 1, *kernel)), {**words, **more}
    words = {**conv, "strides": [12, 2, 5], "paddings": [3, 0, 1], "dilations": [1, 1, 1]}
    words["data_format"] = "NCDHW"
    yield "conv3d", (normal(1, 1, 13, 3, 4), normal(2, 1, 3, 2, 2)), words
    pool = {"kernel_size": [3, 3], "strides": [12, 12], "paddings": [1, 1], "ceil_mode": True}
    pool |= {"exclusive": True, "data_format": "NCHW", "global_pooling": False, "adaptive": False}
    pool |= {"padding_algorithm": "EXPLICIT"}
    for kind in ("max", "avg"):
        yield "pool2d", (normal(1, 1, 14, 13),), {**pool, "pooling_type": kind}


def of_weights() -> Iterator[Given]:
    for shape, dim in (((3, 4), 0), ((3, 4), 1), ((2, 3, 2, 2), 1), ((1, 3), 0), ((2, 3, 4), 2)):
        height = shape[dim]
        width = int(np.prod(shape)) // height
        for steps in (0, 1, 3):
            args = normal(*shape), normal(height), normal(width)
            yield "spectral_norm", args, {"dim": dim, "power_iters": steps, "eps": 1e-12}


def of_paths() -> Iterator[Given]:
    for batch, steps, tags in ((3, 4, 5), (1, 1, 3), (2, 6, 3), (2, 3, 2)):
        lengths = RNG.integers(1, steps + 1, batch)
        lengths[0] = steps
        for marked in (True, False):
            args = normal(batch, steps, tags), normal(tags, tags), lengths
            yield "viterbi_decode", args, {"include_bos_eos_tag": marked}
    for classes, batch in ((2, 3), (5, 4), (8, 2), (6, 1)):
        x, label = normal(batch, 3), below(classes, batch, 1)
        w, bias = normal(classes - 1, 3), normal(classes - 1, 1)
        words = {"num_classes": classes, "is_sparse": False}
        yield "hsigmoid_loss", (x, label, w, bias), words
        yield "hsigmoid_loss", (x, label, w, None), words
    path = np.array([[0, 1, -1], [0, 2, 3], [0, -1, -1]])
    code = np.array([[1, 0, -1], [0, 0, 1], [1, -1, -1]])
    args = normal(3, 3), below(4, 3, 1), normal(4, 3), normal(4, 1), path, code
    yield "hsigmoid_loss", args, {"num_classes": 4, "is_sparse": False}
    yield "hsigmoid_loss", (*args[:3], None, path, code), {"num_classes": 4, "is_sparse": False}
    for weight in (0.0, 0.25):
        for n, steps, labels, classes in ((2, 3, 2, 4), (1, 1, 1, 2), (3, 5, 2, 3), (2, 2, 4, 3)):
            counts = RNG.integers(1, labels + 1, n).astype("int32")
            lengths = RNG.integers(1, steps + 1, n).astype("int32")
            counts[0], lengths[0] = labels, steps
            label = 1 + below(classes - 1, n, labels, dtype="int32")
            args = normal(n, steps, labels + 1, classes), label, lengths, counts
            yield "warprnnt", args, {"blank": 0, "fastemit_lambda": weight}


def of_pools() -> Iterator[Given]:
    for size, out, kernel, u in (
        ((9, 7), [4, 3], [0, 0], 0.3), ((8, 8), [8, 1], [0, 0], 0.9), ((6, 5), [3, 2], [2, 3], 0.5),
        ((7, 7), [5, 6], [3, 2], 0.75), ((2, 2), [1, 1], [0, 0], 0.1),
    ):  # fmt: skip
        words = {"output_size": out, "kernel_size": kernel, "random_u": u, "return_mask": True}
        yield "fractional_max_pool2d", (normal(2, 1, *size),), words
        words = {**words, "output_size": [2, *out], "kernel_size": [kernel[0] and 2, *kernel]}
        yield "fractional_max_pool3d", (normal(1, 1, 4, *size),), words


def of_boxes() -> Iterator[Given]:
    for normalized in (True, False):
        words = {"code_type": "encode_center_size", "box_normalized": normalized}
        prior, target = boxes(4), boxes(3)
        # In double precision Paddle misreads the numbers of `variance`.
        single = prior.astype("float32")
        varied = {**words, "variance": [0.1, 0.1, 0.2, 0.2]}
        yield "box_coder", (prior, boxes(4), target), words
        yield "box_coder", (single, None, target.astype("float32")), varied
        yield "box_coder", (prior, None, target), words
        words["code_type"] = "decode_center_size"
        for axis in (0, 1):
            moved = normal(3, 4, 4) if axis == 0 else normal(4, 3, 4)
            more = {**words, "axis": axis}
            yield "box_coder", (prior, boxes(4), moved), more
            varied = {**more, "variance": [0.1, 0.1, 0.2, 0.3]}
            yield "box_coder", (single, None, moved.astype("float32")), varied
            yield "box_coder", (prior, None, moved), more
    for scale, smooth, scored, threshold in (
        (1.0, True, True, 0.7), (1.2, False, False, 0.3), (2.0, True, False, 0.01)
    ):  # fmt: skip
        size = RNG.uniform(0.05, 0.7, (2, 3, 2))
        found = np.concatenate([RNG.uniform(0, 1, (2, 3, 2)), size], -1).round(DIGITS)
        found[0, 1] = 0  # no box
        args = normal(2, 2 * 8, 3, 3), found, below(3, 2, 3, dtype="int32")
        score = RNG.uniform(0, 1, (2, 3)).round(DIGITS) if scored else None
        yield "yolo_loss", (*args, score), {
            "anchors": [10, 13, 16, 30, 33, 23, 90, 60], "anchor_mask": [1, 3], "class_num": 3,
            "ignore_thresh": threshold, "downsample_ratio": 32, "use_label_smooth": smooth,
            "scale_x_y": scale,
        }  # fmt: skip
    every = {"score_threshold": 0.1, "nms_top_k": 10, "keep_top_k": 10, "nms_threshold": 0.3}
    every |= {"normalized": True, "nms_eta": 1.0, "background_label": -1}
    for words in (
        {}, {"background_label": 0}, {"keep_top_k": 3}, {"keep_top_k": -1, "nms_top_k": -1},
        {"nms_top_k": 2}, {"normalized": False}, {"nms_eta": 0.8, "nms_threshold": 0.7},
        {"score_threshold": 2.0}, {"nms_threshold": 0.0}, {"background_label": 2},
    ):  # fmt: skip
        scores = RNG.permutation(2 * 3 * 6).reshape(2, 3, 6) / 36
        args = boxes(2, 6), scores.round(DIGITS), None
        yield "multiclass_nms3", args, {**every, **words}
    args = boxes(7, 2), RNG.permutation(14).reshape(7, 2) / 14, np.array([3, 0, 4], "int32")
    yield "multiclass_nms3", args, every


def of_lists() -> Iterator[Given]:
    row, square = normal(3, dtype="float32"), normal(2, 2, dtype="float32")
    for dtype in ("float32", "float64", "int32"):
        pieces = [row.astype(dtype), square.astype(dtype)]
        for words in (
            {"copy_data": True, "use_align": False}, {"copy_data": True, "align_size": 16},
            {"set_constant": True, "constant": 2.0, "use_align": False},
        ):  # fmt: skip
            yield "coalesce_tensor", (pieces,), {"dtype": dtype, **words}


def of_corners() -> Iterator[Given]:
    """Attributes, types and points that programs rarely have."""
    for start, end, step in ((0.0, 0.6, 0.1), (-2.9, 1.4, 0.1), (1.7, -0.1, -0.1)):
        for dtype in ("float32", "float64"):
            yield "arange", (), {"start": start, "end": end, "step": step, "dtype": dtype}
    for dtype in ("int32", "int64"):
        ends = np.array([-1], dtype), np.array([8], dtype)
        yield "linspace", ends, {"number": 4, "dtype": dtype}
        yield "logspace", (*ends, np.array([2], dtype)), {"num": 4, "dtype": dtype}
    for shape in ((3, 3, 3), (2, 2, 2, 2), (4, 3), (5, 2), (2, 5)):
        for offset in (-1, 0, 2):
            yield "fill_diagonal", (normal(*shape),), {"value": 2.0, "offset": offset, "wrap": True}
    x = np.array([0.0, -0.0, -1.0, 1.0, -2.5, 0.3])
    for alpha in (0.5, -1.5):
        for name in ("elu", "celu", "selu"):
            yield name, (x,), {"alpha": alpha, "scale": 1.5} if name == "selu" else {"alpha": alpha}
    ties = np.array([0.0, 1.0, -1.0, 2.0, np.inf]), np.array([0.0, 2.0, -1.0, 1.0, np.inf])
    for name in ("fmax", "fmin", "maximum", "minimum"):
        yield name, ties, {}
    for beta, alpha in ((0.0, 2.0), (0.5, 0.0), (0.0, 0.0)):
        args = np.full((2, 2), np.inf if alpha else 1.5), normal(2, 3), normal(3, 2)
        yield "addmm", args, {"beta": beta, "alpha": alpha}
        yield "baddbmm", tuple(a[None] for a in args), {"beta": beta, "alpha": alpha}
    labels = np.array([0.0, np.nan, -1.0, 0.5])
    yield "kldiv_loss", (normal(4), labels), {"reduction": "none", "log_target": False}


GROUPS: Final = (
    of_matrices, of_types, of_images, of_weights, of_paths, of_pools, of_boxes, of_lists,
    of_corners,
)  # fmt: skip


def drawn() -> Iterator[Call]:
    for group in GROUPS:
        for name, args, attrs in group():
            yield complete(lookup(f"pd_op.{name}"), Sample(tuple(args), attrs))


# --- the file ---


def stored(value: Any) -> Any:
    """A tensor as its element type, shape and numbers, which are those of the array."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [stored(v) for v in value]
    array = np.asarray(value)
    numbers = array.ravel()
    if array.dtype.kind == "c":
        numbers = np.stack([np.real(numbers), np.imag(numbers)], -1).ravel()
    listed = numbers.tolist()
    if array.dtype.kind in "fc":
        digits = 8 if array.dtype.itemsize == 4 else 15
        listed = [float(f"{x:.{digits}g}") for x in listed]
        listed = [int(x) if np.isfinite(x) and x == int(x) and x else x for x in listed]
    return {"dtype": array.dtype.name, "shape": [*array.shape], "of": listed}


def loaded(value: Any) -> Any:
    if isinstance(value, list):
        return [loaded(v) for v in value]
    if not isinstance(value, dict):
        return value
    dtype = np.dtype(value["dtype"])
    if dtype.kind == "c":
        pairs = np.array(value["of"], np.float64).reshape(-1, 2)
        return (pairs[:, 0] + 1j * pairs[:, 1]).astype(dtype).reshape(value["shape"])
    return np.array(value["of"]).astype(dtype).reshape(value["shape"])


def attributes(call: Call) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return value.name if hasattr(value, "name") else value

    return {n: plain(v) for n, v in call.attrs.items() if call.definition.attr_kinds[n] != "place"}


def written(call: Call) -> dict[str, Any]:
    """What Paddle says of a call."""
    paddle: Any = import_module("paddle")
    calls: Any = import_module("tests.ops.paddle_calls")
    told = {"op": call.definition.name, "args": [stored(a) for a in call.args]}
    told["attrs"] = attributes(call)

    def tensor(x: Array) -> Any:
        found = calls.to_paddle(x)
        found.stop_gradient = x.dtype.kind not in "fc"
        return found

    if call.definition.name == "pd_op.warprnnt":
        told["about"] = "Paddle's kernel for CPUs takes logarithms that are normalised before"
    tensors = [[tensor(a) for a in x] if isinstance(x, list) else None if x is None else tensor(x)
               for x in call.args]  # fmt: skip
    function = getattr(paddle._C_ops, calls.python_name(call.definition))
    given = tensors
    if "about" in told:
        given = [paddle.nn.functional.log_softmax(tensors[0]), *tensors[1:]]
    try:
        found = function(*calls.arguments(call, given, paddle.to_tensor))
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        return {**told, "refused": str(error).strip().splitlines()[-1][:120]}
    results = list(found) if isinstance(found, tuple) else [found]
    slots = call.definition.results
    if len(results) == len(slots):  # also what only gradients need
        results = [r for r, slot in zip(results, slots, strict=True) if not slot.intermediate]
    if call.attrs.get("use_align"):  # what lies between the parts is not set
        results = results[:1]
    told["results"] = [[stored(calls.to_numpy(r)) for r in x] if isinstance(x, list)
                       else stored(calls.to_numpy(x)) for x in results]  # fmt: skip
    smooth = [(n, r) for n, r in enumerate(results)
              if not isinstance(r, list) and not r.stop_gradient and r.size]  # fmt: skip
    smooth = [(n, r) for n, r in smooth if calls.to_numpy(r).dtype.kind in "fc"]
    wrt = [t for t in tensors if t is not None and not isinstance(t, list) and not t.stop_gradient]
    if smooth and wrt:
        weights = {n: normal(*r.shape, dtype=calls.to_numpy(r).dtype.name) for n, r in smooth}
        seeds = [paddle.to_tensor(w) for w in weights.values()]
        try:
            slopes = paddle.grad([r for _, r in smooth], wrt, seeds, allow_unused=True)
        except RuntimeError as error:
            told["no gradient"] = str(error).strip().splitlines()[-1][:120]
            return told
        told["weights"] = {str(n): stored(w) for n, w in weights.items()}
        named = iter(slopes)
        told["slopes"] = [
            None if t is None or isinstance(t, list) or t.stop_gradient else next(named)
            for t in tensors
        ]
        told["slopes"] = [None if s is None else stored(calls.to_numpy(s)) for s in told["slopes"]]
    return told


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def main() -> None:
    lines = [json.dumps(written(call), separators=(",", ":")) for call in drawn()]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
