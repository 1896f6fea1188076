"""The primitive set: the ops that programs consist of after `decompose`.

The set is closed. Every other op has a ``decompose`` rule that ends here, or is *opaque*: a single
kernel that no rule decomposes. Every primitive has a ``vjp`` rule in ops that end here too, or is
not differentiable: its result is discrete, piecewise constant, or about shapes only. An op is a
primitive if no composition of others computes it as well: as accurately, for as many inputs, in as
few passes over memory. Ops that close families under differentiation (`pow` with a number, `rsqrt`,
`sigmoid`) are in the set, so that repeated derivatives grow linearly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pirkit.dialect.operation import PirOp


@dataclass(frozen=True, slots=True)
class Primitive:
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
        "scale": "product and sum with numbers, which then are no tensors",
        "pow": "powers with a number for exponent are closed under differentiation",
        "elementwise_pow": "is defined for negative bases, which exp and log are not",
        "maximum": "a choice that passes NaN on and splits the derivative in a tie",
        "minimum": "as `maximum`",
        "fmax": "a choice that passes NaN by",
        "fmin": "as `fmax`",
        "atan2": "knows the quadrant, and is exact near the axes",
        "copysign": "sees the sign of a zero, which no comparison does",
        "nextafter": "the next number there is, which no arithmetic with rounding gives",
        "remainder": "exact, which a division followed by a product is not",
        "cast": "changes the element type",
    },
    "identities": {
        "assign": "a value that needs a name of its own",
        "share_data": "another name of the same storage",
        "share_data_": "another name of the same storage",
        "print": "shows a tensor, and passes it on",
        "memcpy_h2d": "moves to a device",
        "memcpy_d2h": "moves to the host",
    },
    "functions": {
        "exp": "the exponential",
        "expm1": "exact near 0, where exp(x) - 1 cancels",
        "log": "the logarithm",
        "log1p": "exact near 0, where 1 + x rounds",
        "sin": "a function of its own",
        "cos": "as `sin`; a shifted sine loses digits",
        "tan": "one division less than sin / cos, and closed: its derivative is a polynomial of it",
        "sinh": "exact near 0, where the exponentials cancel",
        "cosh": "does not overflow half way as exp(x) + exp(-x) does",
        "tanh": "does not overflow, and its derivative is a polynomial of it",
        "asin": "exact near the ends, where compositions cancel",
        "acos": "as `asin`",
        "atan": "a function of its own",
        "asinh": "exact near 0 and for large arguments",
        "acosh": "exact near 1",
        "atanh": "exact near 0",
        "sigmoid": "does not overflow, and its derivative is a polynomial of it",
        "sqrt": "correctly rounded, which a power is not",
        "rsqrt": "one pass, and the native op of accelerators",
        "erf": "a function of its own",
        "erfinv": "a function of its own",
        "lgamma": "a function of its own",
        "gammaln": "Paddle's second name of `lgamma`",
        "digamma": "derivative of `lgamma`",
        "polygamma": "derivatives of `digamma`: closed",
        "gammaincc": "the incomplete gamma function, by series and continued fraction",
        "i0e": "a function of its own; `i0` is it times an exponential",
        "i1e": "derivative of `i0e`; `i1` is it times an exponential",
        "sign": "-1, 0 or 1; the direction of a complex number, which turns",
        "abs": "exact, also for -0.0 and complex numbers",
    },
    "choice": {
        "where": "chooses without computing with what is not chosen: inf and NaN stay out",
    },
    "reductions and scans": {
        "sum": "the sum over axes",
        "max": "the largest element; ties split the derivative",
        "min": "as `max`",
        "prod": "the product over axes, zeros and negative elements included",
        "cumsum": "running sums in one pass",
        "cumprod": "running products in one pass",
        "cummax": "running maxima and where they are",
        "cummin": "as `cummax`",
        "topk": "the largest elements and where they are, without sorting all",
        "argsort": "the elements in order, and where they are",
        "reduce_as": "undoes broadcasting where the shape is known at run time only",
    },
    "shapes": {
        "reshape": "other dimensions, same elements: moves nothing",
        "transpose": "order of axes",
        "expand": "repeats without a copy",
        "concat": "joins tensors",
        "slice": "a block of elements",
        "strided_slice": "every n-th element",
        "pad": "surrounds with a constant",
        "flip": "reverses axes",
        "roll": "rotates axes in one pass",
        "frame": "windows along an axis, whose elements are at affine places: no data tell them",
        "overlap_add": "derivative of `frame`; each element is a sum over few windows",
    },
    "indexing": {
        "gather": "slices along one axis, by number",
        "gather_nd": "elements or slices, by coordinates",
        "scatter_nd_add": "adds at coordinates: derivative of the gathers",
        "put_along_axis": "writes an element for each index: derivative of `take_along_axis`",
        "take_along_axis": "picks an element for each index",
    },
    "products": {
        "matmul": "the product of matrices, in batches",
        "conv2d": "the convolution; its derivatives are convolutions",
        "conv3d": "as `conv2d`",
        "conv2d_transpose": "derivative of `conv2d` to its input",
        "conv3d_transpose": "derivative of `conv3d` to its input",
    },
    "control flow": {
        "if": "one of two blocks",
        "while": "a block that is repeated",
    },
    "linear algebra": {
        "cholesky": "a factorisation; its derivative is triangular solves and products",
        "triangular_solve": "stable, where a product with an inverse is not",
        "qr": "a factorisation",
        "lu": "a factorisation with pivots",
        "eigh": "a factorisation",
        "eig": "a factorisation",
        "svd": "a factorisation",
        "det": "by a factorisation with pivots",
        "slogdet": "does not overflow where the determinant does",
        "slogdet_v2": "as `slogdet`",
        "inverse": "by a factorisation with pivots",
        "solve": "more exact than a product with an inverse",
    },
    "complex numbers": {
        "as_complex": "two real numbers as a complex one, without a copy",
        "as_real": "the inverse of `as_complex`",
        "real": "the real part",
        "imag": "the imaginary part",
        "complex": "a complex tensor of its parts",
        "conj": "the conjugate",
        "fft_c2c": "the Fourier transform, in n log n steps",
        "fft_r2c": "the half of `fft_c2c` that real input leaves",
        "fft_c2r": "the inverse of `fft_r2c`",
    },
}

_DISCRETE: Final[dict[str, dict[str, str]]] = {
    "piecewise constant": {
        "floor": "rounding down",
        "ceil": "rounding up",
        "round": "rounding to even",
        "trunc": "rounding to zero",
        "floor_divide": "exact for integers, which floor of a quotient is not",
    },
    "comparison and logic": {
        **{
            name: "a comparison"
            for name in (
                "equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal",
            )
        },
        **{f"logical_{name}": "logic of truth values" for name in ("and", "or", "xor", "not")},
        **{f"bitwise_{name}": "logic of bits" for name in ("and", "or", "xor", "not")},
        "bitwise_left_shift": "exact for all integers",
        "bitwise_right_shift": "exact for all integers, with or without the sign",
        "isnan": "a test that no comparison of numbers replaces in fast-math code",
        "isinf": "as `isnan`",
        "isfinite": "as `isnan`",
    },
    "places": {
        "argmax": "where the largest element is",
        "argmin": "where the smallest element is",
        "nonzero": "places, a data-dependent number of them",
        "unique": "distinct elements, a data-dependent number of them",
        "searchsorted": "places by bisection",
    },
    "boxes": {
        "prior_box": "boxes that follow from sizes only",
        "yolo_box": "boxes and scores of a prediction, for choosing between them",
        "distribute_fpn_proposals": "sorts boxes by their sizes, a data-dependent number of them",
        "generate_proposals": "chooses boxes, a data-dependent number of them",
        "nms": "as `generate_proposals`",
        "multiclass_nms3": "as `nms`, class by class",
    },
    "creation and shape": {
        "full": "a constant",
        "full_like": "a constant of the shape of a tensor",
        "full_int_array": "a list of integers",
        "full_with_tensor": "a constant whose value and shape are computed",
        "assign_value": "a constant with different elements",
        "arange": "equidistant numbers",
        "shape64": "the sizes of a tensor",
        "shape": "the sizes of a tensor, as 32-bit numbers",
        "empty": "storage without content",
    },
    "random numbers": {
        "uniform": "draws from an interval",
        "gaussian": "draws from the normal distribution",
        "randint": "draws integers",
        "randperm": "draws an order",
        "bernoulli": "draws with the probability of each element",
        "binomial": "counts successes, in fewer draws than there are trials",
        "poisson": "draws counts",
        "standard_gamma": "draws by rejection, as often as it takes",
    },
    "arrays of tensors": {
        "create_array": "a list that loops fill",
        "array_write_": "changes a list",
        "array_read": "reads a list by number",
        "array_length": "how long a list has become",
        "array_pop": "takes from a list",
        "array_to_tensor": "joins a list, whose length depends on the data",
    },
    "the program": {
        "data": "an input",
        "feed": "an input",
        "fetch": "an output",
        "assert": "stops the program",
        "assign_out_": "gives an input or parameter its last value: see `functionalize`",
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
