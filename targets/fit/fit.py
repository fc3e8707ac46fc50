"""Fit the hardware numbers of a march to measured BPU times, and write them into its target.toml."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from batch import Batch, Numbers, Vector
from bounds import CHOICES, TIES, ranges_for
from judge import report
from pairs import SETS, Pair, load_pairs
from search import evolve

from bpuc.plugins import get_target
from bpuc.target.hardware import Hardware

TARGETS = Path(__file__).parents[1] / "bpuc_targets"
# marches whose common table is fitted; nash-m takes nash-e's numbers at its own clock
FILES = {"bayes-e": "bayes_e", "bernoulli2": "bernoulli2", "nash-e": "nash"}


def fit(
    pairs: list[Pair], start: Hardware, march: str, rounds: int, seed: int, anew: bool = False
) -> tuple[Hardware, float]:
    """Numbers that minimize the mean of e + e^2, where e is |log(predicted / measured)|, and that mean.

    Args:
        anew: forget the free numbers of `start` and begin in the middle of their ranges.
    """
    batches = [(Batch.of(p.program, p.plan, start), p.measured_us) for p in pairs]
    prefetch, buffer = int(start.prefetch_ops), start.constant_buffer_bytes

    def loss(numbers: Numbers) -> Vector:
        logs = [np.log(b.busy_us(numbers, prefetch, buffer) / us) for b, us in batches]
        e = np.minimum(np.abs(np.array(logs)), 1.5)
        return np.asarray((e + e**2).mean(0))

    best, least = evolve(loss, asdict(start), ranges_for(march), CHOICES, rounds, seed, TIES, anew)
    return Hardware(**best), least


def holdout(pairs: list[Pair], start: Hardware, march: str, rounds: int, seeds: range, done: Path | None) -> None:
    """Leave one family out, fit the others, predict it; prints the error over all families.

    Fits begin anew, so that no free number has seen the family; of several seeds the fit with the least loss on the
    families that it sees counts.

    Args:
        done: a JSON file that keeps the errors of each family as soon as it is through; those in it are not done again.
    """
    found: dict[str, dict[str, float]] = {}
    if done is not None and done.exists():
        found = json.loads(done.read_text("utf-8"))
    for family in sorted({p.family for p in pairs}):
        if family not in found:
            seen = [p for p in pairs if p.family != family]
            hw, _ = min((fit(seen, start, march, rounds, s, anew=True) for s in seeds), key=lambda f: f[1])
            found[family] = {p.name: p.predicted_us(hw) / p.measured_us - 1 for p in pairs if p.family == family}
            if done is not None:
                done.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        e = list(found[family].values())
        print(
            f"without {family:16} its {len(e):2} models: MAPE {np.mean(np.abs(e)):6.1%}, "
            f"{min(e):+.1%} to {max(e):+.1%}",
            flush=True,
        )
    errors = {name: error for family in found.values() for name, error in family.items()}
    worst = max(errors, key=lambda n: abs(errors[n]))
    mean = np.mean(np.abs(list(errors.values())))
    print(f"leave one family out: MAPE {mean:.1%}, worst {errors[worst]:+.1%} ({worst})")


def write(march: str, hw: Hardware, source: str) -> None:
    """Put the free numbers, rounded to three digits, into the march's ``[hardware]`` table as fitted ones."""
    path = TARGETS / FILES[march] / "target.toml"
    text = updated(path.read_text("utf-8"), asdict(hw), (*ranges_for(march), *CHOICES), source)
    for name, (other, times) in TIES.items():
        text = updated(text, asdict(hw), [name], f"{times:g} times {other}, assumed; {source}")
    path.write_text(text, "utf-8")


def updated(text: str, values: dict[str, float], names: Iterable[str], source: str) -> str:
    """A target.toml with other values, origin ``fitted`` and the source, on the first line of each name."""
    for name in names:
        line = rf'^({name} = {{ value = )[^,]+(, unit = "[^"]*", origin = ")\w+(", source = ")[^"]*(" }})$'
        value = f"{float(f'{values[name]:.3g}'):.10g}"
        text = re.sub(line, rf"\g<1>{value}\g<2>fitted\g<3>{source}\g<4>", text, count=1, flags=re.MULTILINE)
    return text


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--march", default="bayes-e", choices=sorted(FILES))
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="fit to these models alone")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds from --seed on; the best fit counts")
    parser.add_argument("--anew", action="store_true", help="begin in the middle of the ranges, not with target.toml")
    parser.add_argument("--holdout", action="store_true", help="judge the method instead: leave one family out")
    parser.add_argument("--done", type=Path, help="JSON file that keeps what --holdout has done, to go on from")
    parser.add_argument("--write", action="store_true", help="write the numbers into target.toml")
    args = parser.parse_args()
    pairs = load_pairs(args.folder, args.march, args.only or ())
    start = Hardware.of(get_target(args.march))
    seeds = range(args.seed, args.seed + max(args.seeds, 1))
    if args.holdout:
        holdout(pairs, start, args.march, args.rounds, seeds, args.done)
        return
    hw, _ = min((fit(pairs, start, args.march, args.rounds, s, args.anew) for s in seeds), key=lambda f: f[1])
    report(pairs, hw)
    for name in (*ranges_for(args.march), *CHOICES, *TIES):
        print(f"{name} = {getattr(hw, name):.4g}")
    if args.write:
        write(args.march, hw, f"fit of {len(pairs)} published models, sets {' '.join(SETS[args.march])}")


if __name__ == "__main__":
    main()
