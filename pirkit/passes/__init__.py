"""Transformations of programs, and the manager that runs them in pipelines."""

from pirkit.dialect.opcall import OpCall
from pirkit.passes import gradient_ops as gradient_ops  # its rules are part of every pipeline
from pirkit.passes.base import Pass, PassContext, Remark, Stats, option
from pirkit.passes.manager import PipelineResult, Timing, run_pipeline
from pirkit.passes.pipeline import parse_pipeline
from pirkit.passes.pipelines import PIPELINES
from pirkit.passes.registry import PASSES, all_passes, pass_named, register_pass
from pirkit.passes.rewrite import rewrite

__all__ = [
    "PASSES", "PIPELINES", "OpCall", "Pass", "PassContext", "PipelineResult", "Remark", "Stats",
    "Timing", "all_passes", "option", "parse_pipeline", "pass_named", "register_pass", "rewrite",
    "run_pipeline",
]  # fmt: skip
