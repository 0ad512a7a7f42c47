"""Launches from two machines at once, on a state in an object store: one driver, which both watch.

The machines are processes with a name, and a clock, of their own. Instead of Spark they start a
driver that takes the lease of its launch and writes heartbeats, as Spark's driver does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sources.common.times import now_ms
from sources.config.loader import load_pipeline
from sources.state.generation import Generation
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.launch.run_control import find_running
from spark_jobs.launch.submission import submit
from spark_jobs.run_state.driver_lock import QueryLock, seen_lease
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name
from tests.services.processes import wait_for
from tests.services.s3_server import LOGIN, STORES, client, s3_server

HOUR_S = 3600
BUCKET = "lake"


def on_host(program: str, host: str, ahead_s: int, *arguments: str) -> list[str]:
    """The command that runs a program of this module on a machine of this name and clock."""
    return [sys.executable, "-c", HOST, ROOT, host, str(ahead_s), program, *arguments]


ROOT = str(Path(__file__).parents[3])
HOST = """
import socket, sys, time
_, root, host, ahead_s, program, *arguments = sys.argv
sys.path.insert(0, root)
ahead_s = int(ahead_s)
plain, plain_ns = time.time, time.time_ns
time.time = lambda: plain() + ahead_s
time.time_ns = lambda: plain_ns() + ahead_s * 10**9
socket.gethostname = lambda: host
from spark_jobs.run_state import lease
lease._machine = lambda: host
from tests.spark_jobs.launch import test_two_hosts
getattr(test_two_hosts, program)(host, ahead_s, *arguments)
"""


def say(line: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def launch(host: str, ahead_s: int, pipeline: str) -> None:
    """Launch the live source once the test says so; print which driver is watched."""
    loaded = load_pipeline(Path(pipeline))
    generation = loaded.require_generation()

    def command(_loaded: object, _sources: object, launch_id: str, _: object) -> list[str]:
        return on_host("drive", host, ahead_s, pipeline, launch_id)

    submit.command = command  # type: ignore[assignment]
    say("ready")
    sys.stdin.readline()
    beat = run_control.start_detached(loaded, generation, "live")
    say(f"{beat.launch_id} {beat.host}")


def drive(host: str, _: int, pipeline: str, launch_id: str) -> None:
    """Be the driver until the test says that it is over."""
    generation = load_pipeline(Path(pipeline)).require_generation()
    with QueryLock(generation, launch_id) as lock:
        generation.replace_bytes(f"drivers/{launch_id}", host.encode())
        beat = Heartbeat(
            launch_id=launch_id,
            pid=os.getpid(),
            host=host,
            source="live",
            phase="unbounded",
            state="running",
            at_ms=0,
            batches=1,
        )
        while not generation.exists("over"):
            lock.require_held()
            generation.replace(heartbeat_name("live"), beat.model_copy(update={"at_ms": now_ms()}))
            time.sleep(0.5)


@pytest.fixture(scope="module", params=STORES)
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOGIN.items():
            patch.setenv(name, value)
        with s3_server(request.param) as running:
            client(running).create_bucket(Bucket=BUCKET)
            yield running


@pytest.fixture
def pipeline(endpoint: str, tmp_path: Path) -> Path:
    document = {
        "name": "orders",
        "event_time": "at",
        "sources": [
            {
                "type": "kafka",
                "name": "live",
                "topic": "orders",
                "bootstrap_servers": "localhost:1",
                "schema": {"id": "bigint", "at": "timestamp"},
                "format": "json",
                "start": "earliest",
            }
        ],
        "transform": "none:none",
        "sink": {"path": f"s3://{BUCKET}/out", "mode": "append", "key": ["id"]},
        "state": f"s3://{BUCKET}/state",
        "s3": {"endpoint": endpoint},
    }
    path = tmp_path / "orders.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def drivers(generation: Generation) -> dict[str, str]:
    """Hosts of the drivers that were ever started, by launch."""
    found = {name: generation.read_bytes(name) for name in generation.names("drivers/*")}
    return {name.rpartition("/")[2]: (host or b"").decode() for name, host in found.items()}


@pytest.mark.slow
def test_two_hosts_that_launch_at_once_watch_one_driver_whatever_their_clocks_say(
    pipeline: Path,
) -> None:
    generation = load_pipeline(pipeline).open_generation(create=True)
    assert generation is not None
    clocks = {"ahead": HOUR_S, "behind": -HOUR_S}
    hosts = [
        subprocess.Popen(
            on_host("launch", host, clock, str(pipeline)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for host, clock in clocks.items()
    ]
    try:
        for each in hosts:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in hosts:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        printed = [each.communicate(timeout=180)[0].split() for each in hosts]
        (launched,) = drivers(generation).items()
        assert printed == [list(launched)] * 2
        found = last_launch(generation)
        assert found is not None
        assert (found.launch_id, found.host) == launched
        # A third one, with a right clock, sees it alive, too.
        beat, held = find_running(generation, "live"), seen_lease(generation)
        assert beat is not None
        assert held is not None
        assert (beat.launch_id, held.host, held.epoch) == (*launched, 0)
    finally:
        generation.replace_bytes("over", b"")
        for each in hosts:
            each.kill()
            each.wait()
    wait_for(lambda: find_running(generation, "live") is None, "the driver's end")
