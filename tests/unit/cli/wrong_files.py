"""The files that the wrong usages in `wrong_usages.txt` name."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

GOOD = """pir.program @main(%x "x" : tensor<2xf32>) {
  %a = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%a) {output_name = "y"} : (tensor<2xf32>) -> ()
}
"""
T = "tensor<2x3xf32>"
PASS = "from pirkit.passes import Pass\nclass P(Pass):\n    'A pass.'\n"

LINES = {
    "undef": [f"%a = pd_op.exp(%b) : ({T}) -> {T}"],
    "redef": [f"%a = pd_op.{op}(%x) : ({T}) -> {T}" for op in ("exp", "sin")],
    "later": [f"%a = pd_op.exp(%b) : ({T}) -> {T}", f"%b = pd_op.sin(%x) : ({T}) -> {T}"],
    "type": [f"%a = pd_op.exp(%x) : (tensor<2x4xf32>) -> {T}"],
    "rtype": [f"%a = pd_op.exp(%x) : ({T}) -> tensor<2x4xf32>"],
    "matmul": [f"%a = pd_op.matmul(%x, %x) : ({T}, {T}) -> tensor<2x2xf32>"],
    "attr": [f"%a = pd_op.matmul(%x, %x) {{transpose_Y = true}} : ({T}, {T}) -> tensor<2x2xf32>"],
    "attrval": [f'%a = pd_op.softmax(%x) {{axis = "one"}} : ({T}) -> {T}'],
    "attrmiss": [f"%a = pd_op.transpose(%x) : ({T}) -> tensor<3x2xf32>"],
    "op": [f"%a = pd_op.expp(%x) : ({T}) -> {T}"],
    "dialect": [f"%a = pdop.exp(%x) : ({T}) -> {T}"],
    "nodialect": [f"%a = exp(%x) : ({T}) -> {T}"],
    "args": [f"%a = pd_op.exp(%x, %x) : ({T}, {T}) -> {T}"],
    "noargs": [f"%a = pd_op.exp() : () -> {T}"],
    "results": [f"%a, %b = pd_op.exp(%x) : ({T}) -> ({T}, {T})"],
    "missparen": [f"%a = pd_op.exp(%x : ({T}) -> {T}"],
    "nocolon": ["%a = pd_op.exp(%x)"],
    "dtype": [f"%a = pd_op.exp(%x) : (tensor<2x3xfloat32>) -> {T}"],
    "elem": [f"%a = pd_op.exp(%x) : (tensor<2x3>) -> {T}"],
    "neg": [f"%a = pd_op.exp(%x) : (tensor<-2x3xf32>) -> {T}"],
    "region": [f"%a = pd_op.exp(%x) ({{}}) : ({T}) -> {T}"],
    "noregion": [f"%a = pd_op.if {{}} : (tensor<i1>) -> {T}"],
    "twoout": [f'pir.shadow_output(%x) {{output_name = "y"}} : ({T}) -> ()'] * 2,
    "yield": [f"pir.yield(%x) : ({T}) -> ()"],
    "exponent": [f"%a = pd_op.leaky_relu(%x) {{negative_slope = 1e-05 : f32}} : ({T}) -> {T}"],
    "percent": [f"%a = pd_op.exp(x) : ({T}) -> {T}"],
    "outname": [f'pir.shadow_output(%x) {{name = "y"}} : ({T}) -> ()'],
    "cond": [
        f"%a = pd_op.if(%x) : ({T}) -> {T} {{",
        f"pir.yield(%x) : ({T}) -> ()",
        "} else {",
        f"pir.yield(%x) : ({T}) -> ()",
        "}",
    ],
    "axis5": [f"%a = pd_op.softmax(%x) {{axis = 5 : i32}} : ({T}) -> {T}"],
    "quotedbad": [f'%a = "pd_op.expp"(%x) : ({T}) -> {T}'],
    "quote": [f'pir.shadow_output(%x) {{output_name = "y}} : ({T}) -> ()'],
}
"""Programs of MLIR with one mistake, by name: the lines between their first and last ones."""

FILES: dict[str, str | bytes] = {
    "good.mlir": GOOD,
    "empty.mlir": "",
    "bin.mlir": bytes(range(256)),
    "cut.mlir": GOOD[:90],
    "cut2.mlir": GOOD[:-2],
    "words.txt": "hello world\n",
    "words.mlir": "hello world\n",
    "m.json": '{"a": 1}',
    "m.pdmodel": b"\x0a\x04\x08\x00\x10\xff\xff",
    "cut.json": '{"base_code": {"magic": "pir", "trainable"',
    "arr.json": "[1,2]",
    "st.mlir": "module @m { func.func @main() { %0 = stablehlo.exponential %a : f32 } }\n",
    "ll.ll": '; ModuleID = "x"\ndefine i32 @f() { ret i32 0 }\n',
    "twoprog.mlir": GOOD + GOOD,
    "func.mlir": "builtin.module {\n  func.func @f() {\n    func.return\n  }\n}\n",
    "brace.mlir": GOOD + "}\n",
    "keyword.mlir": "pir.program @main(%x : tensor<2xf32>) {\n}\n",
    "progname.mlir": "pir.program main() {\n}\n",
    "paddle.txt": '{\n (%0) = "pd_op.exp" (%1) {} : (tensor<2xf32>) -> tensor<2xf32>\n}\n',
    "paddle2.txt": '{\n (%0) = "pd_op.data" () {name:"x"} : () -> tensor<2xf32>\n',
    "param.mlir": "pir.program @main {\n"
    '  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>\n'
    '  pir.shadow_output(%w) {output_name = "y"} : (tensor<2xf32>) -> ()\n}\n',
    "w.npz": b"not a zip",
    "w.npy": b"\x93NUMPY",
    "w.safetensors": b"\x00\x01",
    "w.pkl": b"\x80\x04",
    "in.csv": "1,2,3\n",
    "linalg.mlir": "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
    "  %b = linalg.fill ins(%a : tensor<2xf32>) -> tensor<2xf32>\n}\n",
    "page.html": "<!DOCTYPE html>\n<html></html>\n",
    "script.py": "import paddle\n",
    "lfs.onnx.txt": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "w.pdiparams": bytes(40),
    "cut.pt2": b"PK\x03\x04 and no more",
    "utf16.mlir": GOOD.encode("utf-16"),
    "pass.py": "x = 1\n",
    "passbad.py": "import nosuchmodule\n",
    "passsyn.py": "def f(:\n",
    "pass.txt": "x",
    "hash.mlir": f"# a comment\n{GOOD}",
    "ccomment.mlir": f"/* a comment */\n{GOOD}",
    "two.mlir": f"builtin.module {{\n{GOOD}}}\n" * 2,
    "ansi.mlir": f"\x1b[31m{GOOD}",
    "smart.mlir": GOOD.replace('"y"', "\u201cy\u201d"),
    "modul.mlir": f"builtin.modul {{\n{GOOD}}}\n",
    "typo_prog.mlir": GOOD.replace("pir.program", "pir.progam"),
    "typo_out.mlir": GOOD.replace("shadow_output", "shadow_ouput"),
    "noarrow.mlir": GOOD.replace("->", "=>"),
    "noparen.mlir": GOOD.replace("pd_op.exp(%x)", "pd_op.exp %x"),
    "bigdim.mlir": GOOD.replace("2xf32", "99999999999999999999xf32"),
    "i7.mlir": GOOD.replace("2xf32", "2xi7"),
    "memref.mlir": GOOD.replace("tensor<2xf32>", "memref<2xf32>"),
    "vector.mlir": GOOD.replace("tensor<2xf32>", "vector<2xf32>"),
    "dupprog.mlir": f"builtin.module {{\n{GOOD}{GOOD}}}\n",
    "dup_input.mlir": f'pir.program @main(%x "x" : {T}, %y "x" : {T}) {{\n}}\n',
    "unicode.mlir": GOOD.replace("%a", "%\u00e9"),
    "toml.toml": "[a]\nx=1\n",
    "yaml.yaml": "a: 1\n",
    "keras.h5": b"\x89HDF\r\n\x1a\n",
    "tf.pb": b"\x08\x01\x12\x00",
    "m.gguf": b"GGUF\x03\x00\x00\x00",
    "m.tflite": b"\x1c\x00\x00\x00TFL3",
    "m.gz": b"\x1f\x8b\x08\x00",
    "m.png": b"\x89PNG\r\n\x1a\n",
    "jaxpr.txt": "{ lambda ; a:f32[2]. let b:f32[2] = exp a in (b,) }\n",
    "fx.txt": "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    return x\n",
    "ts.txt": "graph(%x : Float(2)):\n  %1 : Float(2) = aten::exp(%x)\n  return (%1)\n",
    "onnx.txt": '<ir_version: 10, opset_import: ["" : 21]>\nmain (float[2] x) => (float[2] y) {}\n',
    **{
        f"load{name}.py": "from pirkit.passes import rewrite\n"
        f"@rewrite{ops}\ndef f({given}){body}\n"
        for name, ops, given, body in (
            ("name", "('rleu')", "c", ": return c.x"),
            ("ret", "('exp')", "c", ": return 3"),
            ("none", "('exp')", "c", ": pass"),
            ("call", "", "c", ": pass"),
            ("sig", "('exp')", "", ": pass"),
            ("opt", "('exp')", "c, *, k", ": return c.x"),
        )
    },
    "passexit.py": "import sys\nsys.exit(3)\n",
    "passname.py": f"{PASS}    def run(self, ctx, module): pass\n",
    "passtype.py": "from dataclasses import dataclass\nfrom pirkit.passes.base import option\n"
    + PASS.replace("class", "@dataclass(frozen=True)\nclass")
    + "    name = 'mine'\n    n: 'Unknown' = option(1, 'n')\n    def run(self, ctx, m): pass\n",
    "seed.mlir": f"// pirkit reproducer\n// pipeline: cse\n// seed: x\n{GOOD}",
    "nodump/index.json": "[]",
    "split.mlir": f"{GOOD}// -----\n{GOOD}",
    **{
        f"{name}.mlir": f'pir.program @main(%x "x" : {T}) {{\n  ' + "\n  ".join(lines) + "\n}\n"
        for name, lines in LINES.items()
    },
}  # fmt: skip


def write_files(folder: Path) -> None:
    """Write them into a folder."""
    for name, content in FILES.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "loop").symlink_to("loop")
    with zipfile.ZipFile(folder / "m.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    np.savez(folder / "shape.npz", x=np.ones(3, "f"))
    np.save(folder / "two.npy", np.ones(2, "f"))
    np.save(folder / "obj.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name, dtype in (("c", "c8"), ("u8", "u8"), ("str", "U1")):
        np.save(folder / f"{name}.npy", np.ones(2).astype(dtype))
    np.savez(folder / "dtype.npz", x=np.ones(2, "i8"))
    np.savez(folder / "name.npz", z=np.ones(2, "f"))
    np.savez(folder / "param_shape.npz", w=np.ones(3, "f"))
