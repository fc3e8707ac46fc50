"""Predicted against measured BPU time of every model of a folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from pairs import SETS, Pair, load_pairs, rows_of

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
    ranks = [np.argsort(np.argsort(v)) for v in ([p.measured_us for p in pairs], list(predicted.values()))]
    print(
        f"{len(pairs)} models: MAPE {every.mean():.1%}, median {np.median(every):.1%}, worst {every.max():.1%}, "
        f"Spearman {np.corrcoef(*ranks)[0, 1]:.4f}"
    )
    return predicted


def one_thread(pairs: list[Pair], hw: Hardware) -> None:
    """Print the errors of the latency of one thread."""
    errors = {p.name: p.predicted_thread_us(hw) / p.thread_us - 1 for p in pairs if p.thread_us}
    if errors:
        every, worst = np.abs(list(errors.values())), max(errors, key=lambda n: abs(errors[n]))
        print(f"one thread, {len(errors)} models: MAPE {every.mean():.1%}, worst {errors[worst]:+.1%} ({worst})")


def traffic(pairs: list[Pair], folder: Path, march: str) -> None:
    """Print scheduled DDR bytes against those of the vendor's compiler, where published_compiler_estimates.csv has any.

    Of several releases of the compiler the newest counts.
    """
    table = folder / "published_compiler_estimates.csv"
    found = [r for r in rows_of(table) if r["march"] == march and r["est_ddr_bytes"]] if table.exists() else []
    newest = max((r["hbdk"] for r in found), key=lambda v: [int(n) for n in v.split(".") if n], default="")
    published = {r["model"].replace("_", "-"): float(r["est_ddr_bytes"]) for r in found if r["hbdk"] == newest}
    errors = []
    for p in pairs:
        if p.name in published:
            error = p.ddr_bytes / published[p.name] - 1
            errors.append(error)
            moved, theirs = p.ddr_bytes / 1e6, published[p.name] / 1e6
            print(f"{p.name:32} DDR {moved:6.2f} MB  compiler {theirs:6.2f} MB  {error:+7.1%}")
    if errors:
        print(f"DDR bytes of {len(errors)} models against hbdk {newest}: MAPE {np.mean(np.abs(errors)):.1%}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--march", default="bayes-e", choices=sorted(SETS))
    parser.add_argument("--json", type=Path, help="write measured and predicted times")
    args = parser.parse_args()
    pairs = load_pairs(args.folder, args.march)
    predicted = report(pairs, Hardware.of(get_target(args.march)))
    one_thread(pairs, Hardware.of(get_target(args.march)))
    traffic(pairs, args.folder, args.march)
    if args.json:
        rows = {p.name: {"measured_us": p.measured_us, "predicted_us": predicted[p.name]} for p in pairs}
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
