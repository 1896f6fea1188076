"""The primitive set: the ops that programs consist of after `decompose`.

The set is closed. Every other op has a ``decompose`` rule that ends here, or is *opaque*: a single
kernel that no rule decomposes. Every primitive has a ``vjp`` rule in ops that end here too, or is
not differentiable: its result is discrete, piecewise constant, or about shapes only. An op is a
primitive if no composition of others computes it as well: as accurately, for as many inputs, in as
few passes over memory. Ops that close families under differentiation (`pow` with a number, `rsqrt`,
`sigmoid`) are in the set, so that repeated derivatives grow linearly.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pirkit.dialect.operation import PirOp


class Primitive(Struct, frozen=True):
    """A member of the set: the reason, its group, and whether it has a derivative."""

    name: str
    group: str
    reason: str
    differentiable: bool


_DIFFERENTIABLE: Final[dict[str, dict[str, str]]] = {
    "arithmetic": {
        "add": "the sum",
        "subtract": "one op instead of a sum and a negation, and exact where both cancel",
        "multiply": "the product",
        "divide": "rounds once; a product with a reciprocal rounds twice",
        "scale": "multiplication and addition of scalars without tensors for them",
        "pow": "powers with a constant exponent are closed under differentiation",
        "elementwise_pow": "defined for negative bases, unlike a composition of exp and log",
        "maximum": "propagates NaN, and shares the derivative evenly in a tie",
        "minimum": "as `maximum`",
        "fmax": "ignores NaN",
        "fmin": "as `fmax`",
        "atan2": "knows the quadrant, and is exact near the axes",
        "copysign": "distinguishes -0.0 from 0.0, which no comparison does",
        "nextafter": "the adjacent floating-point number, which rounding arithmetic cannot compute",
        "remainder": "exact, which a division followed by a product is not",
        "cast": "changes the element type",
    },
    "identities": {
        "assign": "a copy with a name of its own",
        "share_data": "another name of the same storage",
        "share_data_": "another name of the same storage",
        "depend": "another name of the same storage, computed after other values",
        "print": "prints a tensor and returns it",
        "memcpy_h2d": "moves to a device",
        "memcpy_d2h": "moves to the host",
    },
    "functions": {
        "exp": "the exponential",
        "expm1": "exact near 0, where exp(x) - 1 cancels",
        "log": "the logarithm",
        "log1p": "exact near 0, where 1 + x rounds",
        "sin": "not a composition of others",
        "cos": "as `sin`; a shifted sine loses digits",
        "tan": "one division less than sin / cos; its derivative is a polynomial of it",
        "sinh": "exact near 0, where the exponentials cancel",
        "cosh": "overflows later than exp(x) + exp(-x)",
        "tanh": "does not overflow, and its derivative is a polynomial of it",
        "asin": "exact near the ends, where compositions cancel",
        "acos": "as `asin`",
        "atan": "not a composition of others",
        "asinh": "exact near 0 and for large arguments",
        "acosh": "exact near 1",
        "atanh": "exact near 0",
        "sigmoid": "does not overflow, and its derivative is a polynomial of it",
        "sqrt": "correctly rounded, which a power is not",
        "rsqrt": "one pass, and the native op of accelerators",
        "erf": "not a composition of others",
        "erfinv": "not a composition of others",
        "lgamma": "not a composition of others",
        "gammaln": "Paddle's second name of `lgamma`",
        "digamma": "derivative of `lgamma`",
        "polygamma": "derivatives of `digamma`, closed under differentiation",
        "gammaincc": "the incomplete gamma function, by series and continued fraction",
        "i0e": "not a composition of others; `i0` is this times an exponential",
        "i1e": "derivative of `i0e`; `i1` is this times an exponential",
        "sign": "-1, 0 or 1; of a complex number the direction",
        "abs": "exact, also for -0.0 and complex numbers",
    },
    "choice": {"where": "selects elements; inf and NaN in the other operand have no effect"},
    "reductions and scans": {
        "sum": "the sum over axes",
        "max": "the largest element; ties split the derivative",
        "min": "as `max`",
        "prod": "the product over axes, zeros and negative elements included",
        "cumsum": "running sums in one pass",
        "cumprod": "running products in one pass",
        "cummax": "running maxima and their indices",
        "cummin": "as `cummax`",
        "topk": "the largest elements and their indices, without a full sort",
        "argsort": "the sorted elements and their indices",
        "reduce_as": "sums over broadcast axes of a dynamic shape",
    },
    "shapes": {
        "reshape": "another shape of the same elements, without a copy",
        "transpose": "permutes axes",
        "expand": "broadcasts without a copy",
        "concat": "concatenates tensors",
        "slice": "a block of elements",
        "strided_slice": "every n-th element",
        "pad": "pads with a constant",
        "flip": "reverses axes",
        "roll": "rotates axes in one pass",
        "frame": "windows along an axis, read at affine indices",
        "overlap_add": "derivative of `frame`: a sum over the few windows of each element",
    },
    "indexing": {
        "gather": "reads slices along one axis at given indices",
        "gather_nd": "reads elements or slices at given coordinates",
        "scatter_nd_add": "adds at given coordinates: derivative of the gathers",
        "put_along_axis": "writes an element for each index: derivative of `take_along_axis`",
        "take_along_axis": "reads an element for each index",
    },
    "products": {
        "matmul": "batched matrix multiplication",
        "conv2d": "the convolution; its derivatives are convolutions",
        "conv3d": "as `conv2d`",
        "conv2d_transpose": "derivative of `conv2d` with respect to its input",
        "conv3d_transpose": "derivative of `conv3d` with respect to its input",
    },
    "control flow": {"if": "one of two blocks", "while": "a block that is repeated"},
    "linear algebra": {
        "cholesky": "a factorisation; its derivative is triangular solves and products",
        "triangular_solve": "stable, where a product with an inverse is not",
        "qr": "a factorisation",
        "lu": "a factorisation with pivots",
        "eigh": "a factorisation",
        "eig": "a factorisation",
        "svd": "a factorisation",
        "det": "by a factorisation with pivots",
        "slogdet": "does not overflow when the determinant does",
        "slogdet_v2": "as `slogdet`",
        "inverse": "by a factorisation with pivots",
        "solve": "more accurate than a product with an inverse",
    },
    "complex numbers": {
        "as_complex": "two real numbers as a complex one, without a copy",
        "as_real": "the inverse of `as_complex`",
        "real": "the real part",
        "imag": "the imaginary part",
        "complex": "a complex tensor from its real and imaginary parts",
        "conj": "the conjugate",
        "fft_c2c": "the Fourier transform, in n log n steps",
        "fft_r2c": "the half of `fft_c2c` that determines the rest for real input",
        "fft_c2r": "the inverse of `fft_r2c`",
    },
}

_DISCRETE: Final[dict[str, dict[str, str]]] = {
    "piecewise constant": {
        "floor": "rounding down",
        "ceil": "rounding up",
        "round": "rounding to even",
        "trunc": "rounding to zero",
        "floor_divide": "exact for integers, unlike the floor of a quotient",
    },
    "comparison and logic": {
        **{
            name: "a comparison"
            for name in (
                "equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal",
            )
        },
        **{f"logical_{name}": "logic of booleans" for name in ("and", "or", "xor", "not")},
        **{f"bitwise_{name}": "logic of bits" for name in ("and", "or", "xor", "not")},
        "threefry": "a cipher of a hundred integer operations: random numbers from a key",
        "bitwise_left_shift": "exact for all integers",
        "bitwise_right_shift": "exact for all integers, with or without the sign",
        "isnan": "in fast-math code no comparison can replace it",
        "isinf": "as `isnan`",
        "isfinite": "as `isnan`",
    },
    "indices of elements": {
        "argmax": "the index of the largest element",
        "argmin": "the index of the smallest element",
        "nonzero": "indices, a data-dependent number of them",
        "unique": "distinct elements, a data-dependent number of them",
        "searchsorted": "insertion indices by bisection",
        "viterbi_decode": "the best path, whose length depends on the data",
        "gather_tree": "a walk back from the last step, each from the one behind",
    },
    "boxes": {
        "prior_box": "boxes that depend on sizes only",
        "yolo_box": "boxes and scores of a prediction",
        "distribute_fpn_proposals": "sorts boxes by their sizes, a data-dependent number of them",
        "generate_proposals": "selects boxes, a data-dependent number of them",
        "nms": "as `generate_proposals`",
        "multiclass_nms3": "as `nms`, class by class",
        "matrix_nms": "as `multiclass_nms3`",
    },
    "creation and shape": {
        "full": "a constant",
        "full_like": "a constant of the shape of a tensor",
        "full_int_array": "a list of integers",
        "full_with_tensor": "a constant whose value and shape are computed",
        "assign_value": "a constant with different elements",
        "arange": "equidistant numbers",
        "shape64": "the sizes of a tensor",
        "shape": "the sizes of a tensor, as 32-bit integers",
        "empty": "storage without content",
    },
    "random numbers": {
        "uniform": "draws from an interval",
        "gaussian": "draws from the normal distribution",
        "randint": "draws integers",
        "randperm": "draws a permutation",
        "bernoulli": "draws 0 or 1 with the probability given for each element",
        "binomial": "draws counts of successes, with fewer draws than trials",
        "poisson": "draws counts",
        "standard_gamma": "draws by rejection sampling, a data-dependent number of times",
    },
    "arrays of tensors": {
        "create_array": "a list that loops fill",
        "array_write_": "changes a list",
        "array_read": "reads an element of a list",
        "slice_array_dense": "reads an element of a list, counted from either end",
        "array_length": "the length of a list",
        "array_pop": "removes an element of a list",
        "array_to_tensor": "concatenates a list whose length depends on the data",
        "tensor_to_array": "splits a tensor into such a list",
    },
    "the program": {
        "data": "an input",
        "feed": "an input",
        "fetch": "an output",
        "assert": "stops the program",
        "assign_out_": "writes the final value of an input or parameter: see `functionalize`",
        "pylayer": "a block whose derivative is a Python function",
    },
}  # fmt: skip


def _rows() -> dict[str, Primitive]:
    found: dict[str, Primitive] = {}
    for groups, differentiable in ((_DIFFERENTIABLE, True), (_DISCRETE, False)):
        for group, members in groups.items():
            for short, reason in members.items():
                name = f"pd_op.{short}"
                found[name] = Primitive(name, group, reason, differentiable)
    return found


PRIMITIVES: Final = _rows()
"""Every primitive of dialect ``pd_op`` by its full name. Ops of dialect ``pir`` are all primitive,
but for `pir.gradient` and `pir.jet`."""


def is_primitive(op: PirOp) -> bool:
    """True if the op is in the set."""
    if op.name.startswith("pir."):
        return op.name not in ("pir.gradient", "pir.jet")
    return op.name in PRIMITIVES
