"""A first look at bpuc on two models, as ``make demo`` runs it; every command is printed and can be run by hand.

(a) PP-OCR v4's text detector, pretrained, on rendered pages; (b) the digits net of this folder. Files go to build/demo.
Exit code 0 when both ran, 1 when something failed; without a network only (b) runs.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import bpuc as _bpuc  # noqa: F401 - before onnxruntime, which then sends nothing
from models import ppocr

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("build/demo")  # below ROOT, where all commands run
MARCH = "bayes-e"


class StepError(Exception):
    """A bpuc command ended with an error that it has already printed."""


def bpuc(*args: str | Path) -> None:
    """Print a bpuc command, run it, and say how long it took."""
    program = Path(sys.executable).with_name("bpuc")
    shown = program.relative_to(ROOT) if program.is_relative_to(ROOT) else Path("bpuc")
    words = [str(arg) for arg in args]
    print(f"\n$ {shown} {shlex.join(words)}", flush=True)
    start = time.perf_counter()
    done = subprocess.run([str(program), *words], cwd=ROOT)
    if done.returncode:
        raise StepError(f"bpuc {words[0]} ended with exit code {done.returncode}")
    print(f"  ({time.perf_counter() - start:.1f} s)", flush=True)


def float_outputs(model: Path, name: str, samples: np.ndarray) -> np.ndarray:
    """What onnxruntime makes of each sample, in float."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(ROOT / model), providers=["CPUExecutionProvider"])
    return np.stack([session.run(None, {name: sample})[0] for sample in samples])


def read(path: Path) -> Any:
    """A JSON file that a command wrote."""
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def only_array(path: Path) -> np.ndarray:
    """The one array of an npz."""
    with np.load(ROOT / path) as z:
        (name,) = z.files
        return z[name]


def text_detector() -> list[str]:
    """Part (a). Returns the lines of its summary."""
    print("== PP-OCR v4 text detector ==", flush=True)
    ppocr.fetch(ROOT / OUT)
    model, calib_data, eval_data = OUT / "ppocrv4_det.onnx", OUT / "text_calib.npz", OUT / "text_eval.npz"
    calib, _ = ppocr.pictures(10, seed=1)
    pages, drawn = ppocr.pictures(5, seed=2)
    np.savez(ROOT / calib_data, **{ppocr.INPUT: calib})
    np.savez(ROOT / eval_data, **{ppocr.INPUT: pages})
    print(f"rendered {len(calib)} pages of text to calibrate with and {len(pages)} others to compare on", flush=True)

    shape = ["--input-shape", f"{ppocr.INPUT}:1x3x{ppocr.HEIGHT}x{ppocr.WIDTH}"]
    thresholds = OUT / "ppocr.calib.json"
    bpuc("calibrate", model, "--data", calib_data, *shape, "-o", thresholds)
    common: list[str | Path] = ["--march", MARCH, "--calib", thresholds, "--data", calib_data, *shape]
    count, latency = {}, {}
    for sharing in ("auto", "never"):
        binary, report, perf = (OUT / f"ppocr_{sharing}.{end}" for end in ("bpuc", "report.json", "perf.json"))
        bpuc("compile", model, *common, "--share-scales", sharing, "-o", binary, "--report", report)
        page: list[str | Path] = ["--html", OUT / "ppocr.html"] if sharing == "auto" else []
        bpuc("perf", binary, *page, "--json", perf)
        count[sharing] = len(read(report)["rescales"])
        latency[sharing] = read(perf)["summary"]["latency_us"] / 1000
    bpuc("run", OUT / "ppocr_auto.bpuc", "--inputs", eval_data, "-o", OUT / "text_int8.npz")

    maps = [
        m.reshape(len(pages), ppocr.HEIGHT, ppocr.WIDTH)
        for m in (float_outputs(model, ppocr.INPUT, pages), only_array(OUT / "text_int8.npz"))
    ]
    found = [[ppocr.boxes(m) for m in kind] for kind in maps]
    both = sum(ppocr.matched(a, b) for a, b in zip(*found))
    totals = [sum(len(page) for page in kind) for kind in found]
    overlap = np.mean([ppocr.overlap(a, b) for a, b in zip(*maps)])
    return [
        "PP-OCR v4 text detector",
        f"  boxes     {drawn} lines drawn, {totals[0]} found in float, {totals[1]} in int8, {both} in both",
        f"  overlap   {overlap:.4f}, float against int8, mean IoU of the text areas of {len(pages)} pages",
        f"  rescales  {count['never']} if every tensor keeps its own scale, {count['auto']} with shared scales",
        f"  latency   {latency['never']:.2f} ms, with shared scales {latency['auto']:.2f} ms ({MARCH}, estimate)",
    ]


def digits() -> list[str]:
    """Part (b). Returns the lines of its summary."""
    print("\n== digits_inception ==", flush=True)
    (ROOT / OUT).mkdir(parents=True, exist_ok=True)
    model, evaluation = Path("models/digits_inception.onnx"), Path("models/digits_eval.npz")
    thresholds, binary = OUT / "digits.calib.json", OUT / "digits.bpuc"
    bpuc("calibrate", model, "--data", Path("models/digits_calib.npz"), "-o", thresholds)
    bpuc(
        "compile",
        model,
        "--march",
        MARCH,
        "--calib",
        thresholds,
        "--data",
        Path("models/digits_calib.npz"),
        "-o",
        binary,
    )
    bpuc("run", binary, "--inputs", evaluation, "-o", OUT / "digits_int8.npz")
    bpuc("perf", binary, "--html", OUT / "digits.html", "--json", OUT / "digits.perf.json")

    pictures, labels = only_array(evaluation), only_array(Path("models/digits_labels.npz"))
    logits = float_outputs(model, "image", pictures), only_array(OUT / "digits_int8.npz")
    right = [float((kind.reshape(len(labels), -1).argmax(1) == labels).mean()) for kind in logits]
    micro = read(OUT / "digits.perf.json")["summary"]["latency_us"]
    return [
        "digits_inception",
        f"  accuracy  {right[0]:.4f} in float, {right[1]:.4f} in int8, on {len(labels)} held-out pictures",
        f"  latency   {micro:.0f} us ({MARCH}, estimate)",
    ]


def main() -> int:
    """Run both parts and print what came out. Returns the exit code."""
    start = time.perf_counter()
    lines: list[str] = []
    troubles: list[str] = []
    pages: list[Path] = []
    for part, page in ((text_detector, "ppocr.html"), (digits, "digits.html")):
        try:
            lines += part()
            pages.append(OUT / page)
        except ppocr.FetchError as e:
            troubles.append(f"the text detector was left out: {e}")
            print(f"{e}\nGoing on without the text detector.", file=sys.stderr, flush=True)
        except StepError as e:
            troubles.append(str(e))
            print(e, file=sys.stderr, flush=True)
    print(f"\n== results ({time.perf_counter() - start:.0f} s; integers are simulated, latencies are estimates) ==")
    for line in lines:
        print(line)
    for trouble in troubles:
        print(f"incomplete: {trouble}")
    for page in pages:
        print(f"report: {page}")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
