"""Which schedule a program gets: candidates, and the user's wishes by which one is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bpuc.base.errors import ConfigError
from bpuc.flow.request import Request
from bpuc.lower import Scheduling
from bpuc.perf.model import estimate
from bpuc.program import Program
from bpuc.program.schedule import Chip
from bpuc.target.model import Target


def scheduling(request: Request, target: Target) -> Scheduling:
    """Memory and level of a schedule.

    Raises:
        ConfigError: more cores than the march has.
    """
    cores = int(target.hw("cores"))
    if request.cores > cores:
        raise ConfigError(
            f"{request.cores} BPU cores asked for; {target.march} has {cores}",
            want=f"--cores (core_num) 1..{cores}" if cores > 1 else "--cores 1 (core_num: 1)",
        )
    sizes = (int(target.hw(n)) for n in ("sram_bytes", "constant_buffer_bytes", "channel_align", "channel_block"))
    return Scheduling(Chip(*sizes), request.optimize, request.cores)


def best_program(request: Request, target: Target, lower: Callable[[Scheduling], Program]) -> Program:
    """The program of the asked level; of several candidates at -O3 the one that is best by the latency model.

    Raises:
        ConfigError: as `scheduling`.
    """
    how = scheduling(request, target)
    if how.level < 3:
        return lower(how)
    programs = [lower(replace(how, narrow=narrow)) for narrow in (False, True)]
    costs = [_cost(request, target, p) for p in programs]
    return programs[min(range(len(programs)), key=lambda i: (*costs[i], i))]


def _cost(request: Request, target: Target, program: Program) -> tuple[float, float]:
    """What is to be small, and what decides between candidates of which it is the same."""
    s = estimate(program, target)["summary"]
    time, moved = s["latency_us"], s["ddr_read_bytes"] + s["ddr_write_bytes"]
    if request.compile_mode == "bandwidth":
        return moved, time
    if request.compile_mode == "balance":
        share = request.balance / 100
        return float(time**share * moved ** (1 - share)), time
    return time, moved
