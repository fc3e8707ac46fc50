"""bpuc with the example package installed: its pass, march and observer are there, on the command line too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from bpuc.program.container import load_program
from tests.unit.ops.onnx_cases import model

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an installation leaves: the entry points of pyproject.toml as metadata beside the package."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["project"]
    info = folder / f"bpuc_example-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("".join(groups))
    (folder / "bpuc_example").symlink_to(HERE / "bpuc_example")
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """net.onnx: Concat(Conv(x), Relu(Transpose(Transpose(x)))); data.npz."""
    folder = tmp_path_factory.mktemp("net")
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("Transpose", ["x"], ["t"], "there", perm=[0, 2, 3, 1]),
        node("Transpose", ["t"], ["b"], "back", perm=[0, 3, 1, 2]),
        node("Relu", ["b"], ["r"], "relu"),
        node("Sigmoid", ["r"], ["s"], "sig"),
        node("Concat", ["c", "r"], ["y"], "cat", axis=1),
    ]
    w = np.full((2, 2, 1, 1), 0.5, np.float32)
    proto = model(nodes, {"x": (1, 2, 4, 4)}, ["y", "s"], {"w": w})
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    np.savez(folder / "data.npz", x=np.linspace(-2, 4, 32, dtype=np.float32).reshape(1, 1, 2, 4, 4))
    return folder


def bpuc(site: Path | None, *arguments: Any) -> subprocess.CompletedProcess[str]:
    paths = [ROOT, ROOT / "passes", ROOT / "targets", *([site] if site else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "bpuc", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_compile_with_all_three(site: Path, files: Path) -> None:
    out, dumps = files / "net.bpuc", files / "dumps"
    done = bpuc(
        site,
        *("compile", files / "net.onnx", "--march", "toy", "--data", files / "data.npz", "-o", out),
        *("--observer", "headroom", "--observer-opt", "factor=1.5", "--dump-dir", dumps),
    )
    assert done.returncode == 0, done.stderr
    report = load_program(out).report
    assert report["march"] == "toy"

    passes = {p["name"]: p["changes"] for p in report["passes"]}
    assert passes["cancel-transposes"] == 1
    order = list(passes)
    assert order.index("insert-observers") < order.index("cancel-transposes") < order.index("place-ops")
    assert any("cancel-transposes" in p.name for p in dumps.iterdir())

    devices = {n["name"]: (n["device"], n["reason"]) for n in report["nodes"]}
    assert not {"there", "back"} & set(devices)
    assert devices["conv"][0] == devices["relu"][0] == devices["cat"][0] == "BPU"
    assert devices["sig"] == (
        "CPU",
        "Sigmoid is not supported on the BPU of toy: no BPU row in the public operator list",
    )

    tensors = {t["name"]: t for t in report["tensors"]}
    assert tensors["x"]["observer"] == "headroom"
    assert tensors["x"]["threshold"] == pytest.approx(4 * 1.5)


def test_targets_lists_the_march(site: Path) -> None:
    done = bpuc(site, "targets", "toy", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert "kernel height 1..3" in json.dumps(json.loads(done.stdout))


def test_without_the_package_nothing_is_known(files: Path) -> None:
    out = files / "other.bpuc"
    common = ("compile", files / "net.onnx", "--random-data", "-o", out)
    march = bpuc(None, *common, "--march", "toy")
    assert (march.returncode, "bayes-e" in march.stderr) == (2, True)
    observer = bpuc(None, *common, "--march", "bayes-e", "--observer", "headroom")
    assert (observer.returncode, "percentile" in observer.stderr) == (2, True)
    assert not out.exists()
