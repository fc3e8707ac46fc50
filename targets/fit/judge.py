"""Predicted against measured BPU time of every model of a folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from pairs import SETS, Pair, load_pairs

from bpuc.plugins import get_target
from bpuc.target.hardware import Hardware


def report(pairs: list[Pair], hw: Hardware) -> dict[str, float]:
    """Print the errors by model and family; returns the predictions in microseconds by model."""
    predicted = {p.name: p.predicted_us(hw) for p in pairs}
    families: dict[str, list[float]] = {}
    for p in pairs:
        error = predicted[p.name] / p.measured_us - 1
        families.setdefault(p.family, []).append(error)
        print(f"{p.name:32} measured {p.measured_us:9.0f} us  predicted {predicted[p.name]:9.0f} us  {error:+7.1%}")
    for family, errors in families.items():
        mean, bias = np.mean(np.abs(errors)), np.mean(errors)
        print(f"{family:16} {len(errors):3} models  mean |error| {mean:6.1%}  bias {bias:+7.1%}")
    every = np.abs([e for errors in families.values() for e in errors])
    print(f"{len(pairs)} models: MAPE {every.mean():.1%}, median {np.median(every):.1%}, worst {every.max():.1%}")
    return predicted


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--march", default="bayes-e", choices=sorted(SETS))
    parser.add_argument("--json", type=Path, help="write measured and predicted times")
    args = parser.parse_args()
    pairs = load_pairs(args.folder, args.march)
    predicted = report(pairs, Hardware.of(get_target(args.march)))
    if args.json:
        rows = {p.name: {"measured_us": p.measured_us, "predicted_us": predicted[p.name]} for p in pairs}
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
