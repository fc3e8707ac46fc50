"""Calibration on a Dask cluster: the table of one process, although a worker is killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

from bpuc.base.errors import ConfigError
from bpuc.calibrate import calibrate_graph
from bpuc.calibrate.cluster import DaskPool
from bpuc.ir import Graph
from tests.unit.calibrate.test_parallel import Sample, as_text, graph, samples  # noqa: F401

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("dask")]


@pytest.fixture
def cluster() -> Iterator[object]:
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as it,
    ):
        yield it


def test_a_worker_killed_half_way_loses_nothing(graph: Graph, cluster: object) -> None:  # noqa: F811
    one = as_text(calibrate_graph(graph, samples(60), "percentile", {}, threads=1, tune=True))
    address = cluster.scheduler_address  # type: ignore[attr-defined]
    with distributed.Client(address, set_as_default=False) as client:
        pids = client.run(os.getpid)
    killed = []

    def stream() -> Iterator[Sample]:
        for i, sample in enumerate(samples(60)):
            if i == 30:
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)
            yield sample

    got = calibrate_graph(graph, stream(), "percentile", {}, count=60, tune=True, pool=DaskPool(address))
    assert killed
    assert as_text(got) == one


def test_a_scheduler_that_does_not_answer_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"):
        DaskPool("tcp://127.0.0.1:9")
    with pytest.raises(ConfigError, match="no Dask scheduler at nowhere"):
        DaskPool("nowhere")


def test_an_address_that_is_none_leaves_no_client_half_made() -> None:
    """Such a client waits for 20 seconds at the end of the process, and complains by a traceback."""
    code = """
from bpuc.base.errors import ConfigError
from bpuc.calibrate.cluster import DaskPool
try:
    DaskPool("nowhere")
except ConfigError as e:
    print(e.message)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("there is no Dask scheduler at nowhere")
    assert done.stderr == ""
