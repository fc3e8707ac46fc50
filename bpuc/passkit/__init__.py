"""What a pass is and how a pipeline of them is run, checked and recorded."""

from bpuc.passkit.base import Change, Numerics, Pass, Stage
from bpuc.passkit.context import CompileOptions, Group, PassContext, RescaleRecord, Warn
from bpuc.passkit.manager import run_pipeline

__all__ = [
    "Change",
    "CompileOptions",
    "Group",
    "Numerics",
    "Pass",
    "PassContext",
    "RescaleRecord",
    "Stage",
    "Warn",
    "run_pipeline",
]
