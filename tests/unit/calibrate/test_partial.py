"""Interrupted and gone on: the same table; refused for other models, options and data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bpuc.base.errors import FileError
from bpuc.calibrate import calibrate_graph, partial
from bpuc.calibrate.parallel import LocalPool
from bpuc.calibrate.partial import Partial
from bpuc.ir import Graph
from tests.unit.calibrate.test_parallel import Sample, as_text, graph, samples  # noqa: F401


class StopError(Exception):
    """What interrupts."""


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write after every block."""
    monkeypatch.setattr(partial, "SECONDS", 0.0)
    monkeypatch.setattr(partial, "SHARE", 0)


def until(stop: int, of: list[Sample]) -> Iterator[Sample]:
    yield from of[:stop]
    raise StopError


def interrupted(graph: Graph, path: Path, observer: str = "percentile", **more: Any) -> None:  # noqa: F811
    with pytest.raises(StopError):
        calibrate_graph(
            graph, until(10, samples(14)), observer, {}, count=14, partial=Partial(path, {"model": "a"}), **more
        )


@pytest.mark.parametrize(("observer", "tune"), [("percentile", True), ("min_max", False), ("clip_std", False)])
def test_going_on_gives_the_bits_of_one_run(graph: Graph, tmp_path: Path, observer: str, tune: bool) -> None:  # noqa: F811
    path = tmp_path / "x.part"
    one = calibrate_graph(graph, samples(14), observer, {}, threads=1, tune=tune)
    interrupted(graph, path, observer, tune=tune, threads=1)
    assert path.is_file()
    ran: list[int] = []

    def stream() -> Iterator[Sample]:
        for i, sample in enumerate(samples(14)):
            ran.append(i)
            yield sample

    again = Partial(path, {"model": "a"})
    got = calibrate_graph(graph, stream(), observer, {}, count=14, threads=1, tune=tune, partial=again)
    assert as_text(got) == as_text(one)
    assert ran == list(range(14))  # all samples are read, the first 8 only to be compared


def test_going_on_with_more_processes(graph: Graph, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "x.part"
    interrupted(graph, path)
    got = calibrate_graph(
        graph, samples(14), "percentile", {}, pool=LocalPool(2), partial=Partial(path, {"model": "a"})
    )
    assert as_text(got) == as_text(calibrate_graph(graph, samples(14), "percentile", {}))


def test_the_default_observer_goes_on(graph: Graph, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "x.part"
    interrupted(graph, path, "default")
    got = calibrate_graph(graph, samples(14), "default", {}, partial=Partial(path, {"model": "a"}))
    assert as_text(got) == as_text(calibrate_graph(graph, samples(14), "default", {}))


def test_another_model_or_other_data_are_refused(graph: Graph, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "x.part"
    interrupted(graph, path)
    with pytest.raises(FileError, match="another model"):
        calibrate_graph(graph, samples(14), "percentile", {}, partial=Partial(path, {"model": "b"}))
    for other in (samples(14)[::-1], samples(7)):
        with pytest.raises(FileError, match="another data"):
            calibrate_graph(graph, other, "percentile", {}, partial=Partial(path, {"model": "a"}))


@pytest.mark.parametrize("content", [b"", b"text", "cut"])
def test_a_damaged_file_is_refused(graph: Graph, tmp_path: Path, content: bytes | str) -> None:  # noqa: F811
    path = tmp_path / "x.part"
    interrupted(graph, path)
    path.write_bytes(path.read_bytes()[:-30] if isinstance(content, str) else content)
    with pytest.raises(FileError, match="no partial calibration"):
        calibrate_graph(graph, samples(14), "percentile", {}, partial=Partial(path, {"model": "a"}))


def test_nothing_is_written_too_often(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(partial, "SECONDS", 1e6)
    interrupted(graph, tmp_path / "x.part")
    assert not (tmp_path / "x.part").exists()
