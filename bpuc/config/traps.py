"""What does not go together with the march, or not with itself; the vendor's tools stop there, too."""

from __future__ import annotations

from collections.abc import Mapping

from bpuc.config.report import Report
from bpuc.config.schema import Document

COMPILER = "compiler_parameters"
X3_BATCH = 128


def check_traps(doc: Document, report: Report, march: str | None, cores: Mapping[str, int]) -> None:
    """Report mistakes.

    Args:
        march: the machine, from the command line or the file. cores: BPU cores of each machine.
    """
    compiler = doc.compiler_parameters
    known = march is not None and (not cores or march in cores)  # else the march is the mistake
    if known and str(march).startswith("nash") and compiler.optimize_level == "O3":
        report.mistake((COMPILER, "optimize_level"), f"O3 is for X3, J5 and X5; {march} has O0 to O2", "write O2")
    most = cores.get(march or "", compiler.core_num or 0)
    if compiler.core_num is not None and compiler.core_num > most:
        report.mistake((COMPILER, "core_num"), f"{march} has {most} BPU core{'s' if most > 1 else ''}", f"write {most}")
    if (
        compiler.compile_mode == "balance"
        and compiler.balance_factor is None
        and not report.faulty(COMPILER, "balance_factor")
    ):
        report.mistake((COMPILER, "compile_mode"), "balance needs balance_factor, 0 to 100")
    inputs = doc.input_parameters
    if march == "bernoulli2" and (inputs.input_batch or 1) > X3_BATCH:
        report.mistake(("input_parameters", "input_batch"), f"{march} takes at most {X3_BATCH}", f"write {X3_BATCH}")
    if inputs.separate_batch and inputs.separate_name is not None:
        report.mistake(("input_parameters", "separate_name"), "give separate_batch or separate_name, not both")
