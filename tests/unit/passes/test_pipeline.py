"""Pipeline strings: what they mean, and what is said about those that mean nothing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import UsageError
from pirkit.diag.render import to_text
from pirkit.passes import PASSES, Pass, PassContext, all_passes, option, parse_pipeline
from pirkit.passes.cse import CsePass
from pirkit.passes.dce import DcePass
from pirkit.passes.pipeline import check_order, order_remarks
from pirkit.passes.pipelines import PIPELINES, OrderRule


@dataclass(frozen=True)
class Sample(Pass):
    """A pass with an option of every type."""

    name = "sample"

    max_size: int = option(8, "a number")
    rate: float = option(0.5, "a fraction")
    eager: bool = option(False, "a flag")
    mode: str = option("safe", "a word")
    keep: tuple[str, ...] = option((), "words")
    axes: tuple[int, ...] = option((), "numbers")

    def run(self, ctx: PassContext, module: ModuleOp) -> None: ...


@pytest.fixture(autouse=True)
def sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PASSES, "sample", f"{__name__}:Sample")
    monkeypatch.setattr("pirkit.passes.registry.imported", _import)


def _import(name: str) -> object:
    import importlib
    import sys

    return sys.modules[name] if name == __name__ else importlib.import_module(name)


def test_passes_come_in_order() -> None:
    assert parse_pipeline(" cse , dce,cse") == [CsePass(), DcePass(), CsePass()]
    assert parse_pipeline("") == []


def test_named_pipelines_stand_for_their_passes() -> None:
    assert parse_pipeline("cse,@default") == [CsePass(), *parse_pipeline(PIPELINES["default"])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sample", Sample()),
        ("sample{}", Sample()),
        ("sample{max-size=3}", Sample(max_size=3)),
        ("sample{max_size=-3, rate=1e-3}", Sample(max_size=-3, rate=1e-3)),
        ("sample{eager}", Sample(eager=True)),
        ("sample{eager=false,mode=fast}", Sample(mode="fast")),
        ("sample{keep=a,b,c,mode=fast}", Sample(keep=("a", "b", "c"), mode="fast")),
        ("sample{axes=0,-1}", Sample(axes=(0, -1))),
        ('sample{mode="a, {b} = c"}', Sample(mode="a, {b} = c")),
        ("sample{keep=x:4x3}", Sample(keep=("x:4x3",))),
        ('sample{keep="a b","c,d",""}', Sample(keep=("a b", "c,d", ""))),
    ],
)
def test_options(text: str, expected: Pass) -> None:
    assert parse_pipeline(text) == [expected]
    assert parse_pipeline(str(expected)) == [expected]


@pytest.mark.parametrize(
    ("text", "code", "column", "message"),
    [
        ("dce,cze", "PK0702", 5, "unknown pass `cze`"),
        ("@defualt", "PK0702", 1, "unknown pipeline `@defualt`"),
        ("sample{max-sizes=3}", "PK0703", 8, "has no option `max-sizes`"),
        ("sample{max-size=big}", "PK0703", 17, "`big` is no int"),
        ("sample{max-size=1,2}", "PK0703", 19, "takes one int"),
        ("sample{max-size}", "PK0703", 8, "needs a value"),
        ("sample{eager=perhaps}", "PK0703", 14, "takes one bool"),
        ("sample{mode=a,mode=b}", "PK0703", 15, "given twice"),
        ("sample{max-size=1,max_size=2}", "PK0703", 19, "given twice"),
        ("cse dce", "PK0700", 5, "`,` is missing"),
        ("cse,,dce", "PK0700", 5, "is where the name of a pass"),
        ("cse,", "PK0700", 5, "the pipeline ends"),
        ("sample{eager", "PK0700", 13, "`}` is missing"),
        ('sample{mode="a', "PK0700", 13, "does not end"),
        ("{", "PK0700", 1, "is where"),
    ],
)
def test_mistakes(text: str, code: str, column: int, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pipeline(text)
    assert caught.value.code == code
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.column == column


def test_a_mistake_is_shown_in_its_place() -> None:
    with pytest.raises(UsageError) as caught:
        parse_pipeline("dce,cze")
    assert to_text(caught.value) == (
        "error[PK0702]: unknown pass `cze`\n"
        "  --> <pipeline>:1:5\n"
        "  |\n"
        "1 | dce,cze\n"
        "  |     ^^^\n"
        "  = help: did you mean `cse`?\n"
    )


@pytest.mark.parametrize("text", ["dce,\n  cze", "dce,\n  dce;cse", 'dce,\n  "cse', "dce,\n  {"])
def test_a_mistake_is_shown_in_its_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pipeline(text)
    place = caught.value.span
    assert place is not None
    assert (place.line, place.column) == (2, 6 if ";" in text else 3)


def test_order_rules() -> None:
    rule = OrderRule("cse", "dce", "it leaves nothing", strict=True)
    for good in ("cse,dce", "dce,cse,dce", "cse", "dce", "sample"):
        check_order(parse_pipeline(good), [rule])
    for bad in ("dce,cse", "cse,dce,cse"):
        with pytest.raises(UsageError, match="`dce` should come after `cse`") as caught:
            check_order(parse_pipeline(bad), [rule])
        assert caught.value.code == "PK0704"


def test_named_pipelines_keep_the_order() -> None:
    for name in PIPELINES:
        assert order_remarks(parse_pipeline(f"@{name}")) == []


def test_every_pass_and_option_is_described() -> None:
    for cls in all_passes():
        assert cls.name in PASSES
        assert cls.summary().endswith(".")
        assert all(f.metadata["help"] for f in cls.options())
