"""Fuzz for minutes: ``python -m tests.fuzz.run [--seconds N] [--seed S] [KIND...]``.

Each kind runs in a process of its own with 2 GB more memory than it starts with; a case that takes over 10 seconds of
processor time (or a minute, on a busy machine), or ends in anything but a result or a BpucError, is told with its seed,
and the exit status is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from tests.fuzz.targets import TARGETS, attempt

SECONDS, WAITING, MEMORY = 10, 60, 2 << 30


def fuzz(kind: str, seconds: float, seed: int) -> None:
    """Try seeds from `seed` on; the exit status of the process is the number of faults, at most 100."""
    warnings.simplefilter("ignore")

    def late(*_: object) -> None:
        raise TimeoutError(f"over {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    signal.signal(signal.SIGPROF, late)
    target, found, faults = TARGETS[kind], Counter[str](), 0
    target.healthy()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            signal.alarm(WAITING)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                found[attempt(target, Path(folder), seed)] += 1
            except Exception:
                faults += 1
                print(f"{kind} seed {seed}:\n{traceback.format_exc(limit=-4)}")
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            seed += 1
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    total = sum(found.values()) + faults
    print(f"{kind}: {total} files, {faults} faults, at most {most} MB; {dict(found)}", flush=True)
    sys.exit(min(faults, 100))


def main() -> int:
    """Run the kinds one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*TARGETS, []])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    failed = []
    for kind in given.kinds or TARGETS:
        process = multiprocessing.get_context("spawn").Process(target=fuzz, args=(kind, given.seconds, given.seed))
        process.start()
        process.join()
        failed += [kind] if process.exitcode else []
    print(f"faults in: {', '.join(failed)}" if failed else "no faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
