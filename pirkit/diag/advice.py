"""The help text of an error code, for errors that are raised without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_JSON: Final = (
    "pirkit reads the JSON that `paddle.jit.save` writes in Paddle 3: save the model again"
)

_INPUTS: Final = "look at the inputs of the instruction: `pirkit-run FILE --trace` prints them"

_LIMITS: Final = "`--limits off` lifts all limits, for input that you trust"

ADVICE: Final[Mapping[str, str]] = {
    "PK0102": "the file was cut: print or save the program again",
    "PK0104": "each value has one definition: give one of the two another name",
    "PK0105": "types look like `tensor<2x3xf32>`; a size that is not known is `?`, or -1 in a dump",
    "PK0106": "`pirkit explain PK0106` shows how attributes are written",
    "PK0107": "a program is text in UTF-8, or a file .onnx or .pt2; save it as one of these",
    "PK0201": "a value may be used after its definition, in its own block and the blocks inside",
    "PK0202": "declare the type that the op gives, or change what the op reads",
    "PK0203": "change an operand or an attribute so that the constraint holds",
    "PK0205": "`pirkit explain PK0205` shows how the attributes of ops are written",
    "PK0206": "`pir.yield` ends the regions of `pd_op.if` and `pd_op.while`, and nothing else",
    "PK0207": "rename one of the two",
    "PK0209": "`pirkit explain PK0209` shows which regions an op has",
    "PK0301": _LIMITS,
    "PK0304": _LIMITS,
    "PK0400": "write that part in another form, or open an issue with a small program",
    "PK0402": "write it with other ops, or add the rule: `pirkit explain PK0402`",
    "PK0403": "write the program in another form, for instance with a cast before the op",
    "PK0407": "leave `require_native` out: the rest is native code all the same",
    "PK0409": "leave `strict` out, or write the line with other ops",
    "PK0500": "write the file again, with the program that made it",
    "PK0501": _JSON,
    "PK0502": _JSON,
    "PK0503": _JSON,
    "PK0504": "write the weights again, with `paddle.jit.save`, `numpy.savez` or safetensors",
    "PK0507": "arrays are read from .npy, .npz and .safetensors; `numpy.savez('x.npz', x=x)` writes"
    " one",
    "PK0601": "`pirkit-opt FILE -p PASSES --bisect` names the pass that changes numbers",
    "PK0602": "capture the case again, or leave its folder out",
    "PK0603": "correct the comments `// expected-error`, or the program",
    "PK0704": "reorder the passes, or use a pipeline such as `@default`",
    "PK0705": "unset the variable; `pirkit doctor` shows what this machine has",
    "PK0900": _INPUTS,
    "PK0901": _INPUTS,
    "PK0902": "give it by its name: `pirkit-run --inputs NAME=FILE.npy`, or `exe(NAME=array)`",
    "PK0903": "change the array with `reshape` and `astype`, or compile a program of its type",
    "PK0904": "write it on every path that leads to the read, also past a branch that is not taken"
    " and a loop without iterations",
    "PK9000": "this is a bug in pirkit: please report it with the command and its input; "
    "`PIRKIT_DEBUG=1` shows where it happened",
}  # fmt: skip
"""Code -> help. A code that is not here has no remedy that holds for all its errors."""
