"""PP-OCR v4's text detector for the demo: where its file comes from, pictures for it, and how two of its maps compare.

The ONNX file (Apache-2.0, PaddlePaddle) lies inside a wheel on PyPI, which is unpacked and never imported. The pictures
are rendered, so where the text is needs no labelling and nothing else is downloaded.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PACKAGE = "rapidocr-onnxruntime==1.4.4"
WHEEL = "rapidocr_onnxruntime-1.4.4-py3-none-any.whl"
WHEEL_SHA256 = "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
MEMBER = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"

INPUT = "x"
HEIGHT, WIDTH = 480, 640
THRESHOLD = 0.3  # on the probability map, PaddleOCR's det_db_thresh
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # PaddleOCR's, applied to channels in the order B, G, R

VOCABULARY = (
    "analog battery camera delta engine filter gate harbour index joint kernel latency matrix neuron output pixel "
    "quartz radar signal tensor update vector window xenon yield zone 2024 17:45 3.14 No.8 A-12 99% EXIT STOP Total"
)
WORDS = VOCABULARY.split()


class FetchError(Exception):
    """The model could not be had; the text says why and what can be done."""


def fetch(folder: Path) -> Path:
    """The detector's ONNX file in `folder`, downloaded on first use.

    Raises:
        FetchError: no network, no such package, or another file than the one known by its SHA-256.
    """
    model = folder / "ppocrv4_det.onnx"
    if model.is_file():
        return model
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / WHEEL
    if not wheel.is_file():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python"]
        done = subprocess.run(
            [*pip, "--only-binary", ":all:", PACKAGE, "-d", str(folder)], capture_output=True, text=True
        )
        if done.returncode or not wheel.is_file():
            why = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise FetchError(f"{PACKAGE} could not be downloaded: {why}\nWithout a network, put {WHEEL} into {folder}.")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        raise FetchError(f"{wheel} has SHA-256 {digest}, expected {WHEEL_SHA256}\nRemove it and try again.")
    with zipfile.ZipFile(wheel) as z:
        part = model.with_suffix(".part")
        part.write_bytes(z.read(MEMBER))
        part.replace(model)
    return model


def picture(rng: np.random.Generator) -> tuple[Image.Image, int]:
    """A page of 5 to 10 lines of text in several sizes and colours on a shaded ground, and the number of lines."""
    dark = rng.random() < 0.3
    ground, ink = (rng.integers(20, 70, 3), rng.integers(190, 256, 3))[:: 1 if dark else -1]
    slope = np.linspace(0, rng.uniform(-25, 25), WIDTH)[None, :, None] + rng.normal(0, 4, (HEIGHT, WIDTH, 1))
    image = Image.fromarray(np.clip(ground + slope, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    y, lines = int(rng.integers(10, 40)), 0
    for _ in range(int(rng.integers(5, 11))):
        size = int(rng.integers(18, 44))
        if y + size * 1.3 > HEIGHT:
            break
        font = ImageFont.load_default(size=size)
        x = int(rng.integers(10, 160))
        text = str(rng.choice(WORDS))
        while rng.random() < 0.8 and draw.textlength(longer := f"{text} {rng.choice(WORDS)}", font) < WIDTH - 20 - x:
            text = longer
        draw.text((x, y), text, tuple(int(c) for c in ink), font)
        y += int(size * rng.uniform(1.5, 2.0))
        lines += 1
    return image, lines


def pictures(count: int, seed: int) -> tuple[np.ndarray, int]:
    """Network inputs float32 ``[count, 1, 3, 480, 640]`` and the number of text lines in all of them."""
    rng = np.random.default_rng(seed)
    pages = [picture(rng) for _ in range(count)]
    rgb = np.stack([np.asarray(page, np.float32) / 255 for page, _ in pages])
    x = (rgb[..., ::-1] - np.float32(MEAN)) / np.float32(STD)
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)[:, None], np.float32), sum(lines for _, lines in pages)


def boxes(map_: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Bounding boxes (top, left, bottom, right) of the connected regions above `THRESHOLD` in ``[480, 640]``.

    Regions below 20 pixels are left out. PaddleOCR goes on to fit and enlarge polygons, which is not needed here.
    """
    from scipy import ndimage

    labels, _ = ndimage.label(map_ > THRESHOLD, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel())
    found = ndimage.find_objects(labels)
    return [(r.start, c.start, r.stop, c.stop) for i, (r, c) in enumerate(found, 1) if sizes[i] >= 20]


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two maps above `THRESHOLD`; 1 when both are empty."""
    a, b = a > THRESHOLD, b > THRESHOLD
    union = np.count_nonzero(a | b)
    return float(np.count_nonzero(a & b) / union) if union else 1.0


def matched(a: list[tuple[int, int, int, int]], b: list[tuple[int, int, int, int]]) -> int:
    """How many boxes of `a` find their own box in `b` at an intersection over union of at least 0.5."""
    left, hits = list(b), 0
    for box in a:
        best = max(left, key=lambda other: _box_iou(box, other), default=None)
        if best is not None and _box_iou(box, best) >= 0.5:
            left.remove(best)
            hits += 1
    return hits


def _box_iou(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> float:
    height = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    width = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    both = height * width
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return both / (area - both)
