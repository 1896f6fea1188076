"""The grammar of signatures."""

from __future__ import annotations

import pytest

from pirkit.dialect.signature import REQUIRED, parse_signature


def test_operands() -> None:
    signature = parse_signature("x, y?, zs[], ws[]?, axis: intarray = [0, -1], *rest -> out")
    x, y, zs, ws, axis, rest = signature.operands
    assert (x.name, x.index, x.optional, x.is_vec, x.kind) == ("x", 0, False, False, None)
    assert y.optional
    assert zs.is_vec
    assert ws.is_vec
    assert ws.optional
    assert (axis.kind, axis.default) == ("intarray", (0, -1))
    assert rest.variadic
    assert signature.has_absent_operands
    assert not parse_signature("x -> out").has_absent_operands


def test_attributes() -> None:
    signature = parse_signature(
        '; a: f32, b: bool = True, c: str = "x, y", d: dtype = float32, e: i64[] = [] -> out'
    )
    assert signature.operands == ()
    assert [a.name for a in signature.attrs] == ["a", "b", "c", "d", "e"]
    assert [a.default for a in signature.attrs] == [REQUIRED, True, "x, y", "float32", ()]


def test_results() -> None:
    out, mask, outs = parse_signature("x -> out, mask?~, outs[]").results
    assert (out.optional, out.intermediate, out.is_vec) == (False, False, False)
    assert mask.optional
    assert mask.intermediate
    assert outs.is_vec
    assert parse_signature("x ->").results == ()
    assert parse_signature("x -> *outs").results[0].variadic


@pytest.mark.parametrize(
    "text", ["x", "x y -> out", "x: what -> out", "x ; a -> out", "x -> out?x", "-> out: i32"]
)
def test_text_outside_the_grammar(text: str) -> None:
    with pytest.raises(ValueError, match="signature"):
        parse_signature(text)
