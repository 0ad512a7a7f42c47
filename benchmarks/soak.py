"""Soak test: a live run under steady input for two hours, to find out whether anything grows.

    python -m benchmarks.soak --rate 500 --minutes 120

The pipeline merges windows over a topic that receives ``--rate`` records/s into a Delta table, and
Dagster (web server, daemon, code server with the supervision's sensor) runs next to it. Every 5 s
it samples the memory of the Spark driver's JVM, of its Python process, of its Python workers and of
Dagster, the lag, the age of the newest commit, and bytes and files of state, checkpoint, table,
logs and Dagster's own folder. It draws a plot of them. The exit status is 1 if one of them grew, or
if the table is not exact at the end. What a week would bring is computed from the slope of the
second half.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer

from benchmarks.processes import memory_mb_of, processes_under
from benchmarks.record import record
from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from hybrid_extensions.servers.process import free_ports
from orchestration.catch_up import wait_until_caught_up
from orchestration.cli import console
from orchestration.operations import stopping
from orchestration.supervision.status import status
from sources.common.times import iso, now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.planning.context import PipelineContext
from spark_jobs.launch.launch_record import last_launch

SAMPLE_INTERVAL_S = 5.0
ROWS = 20_000
# Largest allowed ratio of the median of the last third of the samples to that of the middle third.
MAX_GROWTH = 1.10
TRANSFORM = """
from pyspark.sql import functions as F

def minutes(rows):
    window = F.window("at", "1 minute")
    return (
        rows.withWatermark("at", "1 minute").groupBy(window, "user")
        .agg(F.count("*").alias("n"))
        .select(F.col("window.start").alias("start"), "user", "n")
    )
"""
SQL = """
SELECT date_trunc('minute', "at") AS start, "user", count(*) AS n FROM input GROUP BY ALL
"""


class Sample(NamedTuple):
    """One sample of a running pipeline; memory counts pages that processes share once.

    Attributes:
        at_s: Seconds since the first sample began.
        jvm: Memory of the driver's JVM, in bytes.
        driver: Memory of the driver's Python process, in bytes.
        workers: Memory of the driver's Python workers, in bytes.
        dagster: Memory of Dagster's processes, in bytes.
        lag: Records of the topic that the live run has not committed.
        commit_age_s: Age of the newest commit of the table, in seconds.
        state_bytes: Size of the state folder without checkpoint and logs, in bytes.
        state_files: Number of those files.
        checkpoint_bytes: Size of the checkpoint, in bytes.
        checkpoint_files: Number of files of the checkpoint.
        table_files: Number of files of the table, with its log.
        log_bytes: Size of the logs of drivers, in bytes.
        dagster_bytes: Size of the folder of Dagster, in bytes.
    """

    at_s: float
    jvm: int
    driver: int
    workers: int
    dagster: int
    lag: int
    commit_age_s: float
    state_bytes: int
    state_files: int
    checkpoint_bytes: int
    checkpoint_files: int
    table_files: int
    log_bytes: int
    dagster_bytes: int


# By field of a sample: its title in plot and report, and the unit of the plot.
SHOWN = {
    "jvm": ("driver, JVM (MiB)", 1 << 20),
    "driver": ("driver, Python (MiB)", 1 << 20),
    "workers": ("driver, Python workers (MiB)", 1 << 20),
    "dagster": ("Dagster (MiB)", 1 << 20),
    "lag": ("lag (records)", 1),
    "commit_age_s": ("age of the newest commit (s)", 1),
    "state_bytes": ("state (MiB)", 1 << 20),
    "state_files": ("state (files)", 1),
    "checkpoint_bytes": ("checkpoint (MiB)", 1 << 20),
    "checkpoint_files": ("checkpoint (files)", 1),
    "table_files": ("table (files)", 1),
    "log_bytes": ("logs of drivers (MiB)", 1 << 20),
    "dagster_bytes": ("Dagster's folder (MiB)", 1 << 20),
}
# Below these medians a growth does not count: the input of some seconds, a page, a rotation.
FLOORS = {"lag": 2_000, "commit_age_s": 3, "log_bytes": 1 << 20}


def main() -> int:
    """Run the soak test; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--rate", type=int, default=500, help="records/s")
    parser.add_argument("--plot", type=Path, default=Path("docs/pictures/soak.svg"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-soak-") as name, LocalBroker() as broker:
        folder = Path(name)
        loaded = _pipeline(folder, broker.bootstrap_servers)
        stop = threading.Event()
        feed = threading.Thread(
            target=_produce, args=(broker.bootstrap_servers, options.rate, stop)
        )
        try:
            console.run(loaded, stop_when_caught_up=False)
            feed.start()
            samples = _watch(loaded, options.minutes * 60)
            stop.set()
            feed.join()
            wait_until_caught_up(PipelineContext.require(loaded))
        finally:
            stop.set()
            stopping.stop(loaded)
        report = audit(loaded)
    return _report(samples, options.rate, options.plot, exact=report.ok)


def _watch(loaded: LoadedPipeline, seconds: float) -> list[Sample]:
    """Sample a live run for some time, with Dagster running next to it.

    Raises:
        RuntimeError: The live run is no longer running.
    """
    home = loaded.path.parent / "dagster"
    samples: list[Sample] = []
    with _dagster(loaded, home) as dagster:
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            time.sleep(SAMPLE_INTERVAL_S)
            samples.append(_sample(loaded, time.monotonic() - begun, dagster, home))
            if len(samples) % 12 == 0:
                sys.stdout.write(f"{samples[-1]}\n")
                sys.stdout.flush()
    return samples


def _sample(loaded: LoadedPipeline, at_s: float, dagster: int, home: Path) -> Sample:
    """Look at everything once; ``dagster`` is the process id of ``dagster dev``.

    Raises:
        RuntimeError: The live run is no longer running.
    """
    generation = loaded.require_generation()
    live = status(loaded).sources[-1]
    launch = last_launch(generation)
    if live.heartbeat is None or live.state != "running" or launch is None or launch.group is None:
        message = f"The live run is {live.state}."
        raise RuntimeError(message)
    python, jvm = live.heartbeat.pid, launch.group
    workers = processes_under(jvm) - {python, jvm}
    state = [path for path in generation.root.rglob("*") if path.is_file()]
    checkpoint = [path for path in state if "checkpoint" in path.parts]
    logs = [path for path in state if ".log" in path.name and "run" in path.parts]
    rest = sorted({*state} - {*checkpoint} - {*logs})
    table = [path for path in Path(loaded.target.url).rglob("*") if path.is_file()]
    newest = max((_modified(path) for path in table if path.suffix == ".json"), default=0.0)
    return Sample(
        at_s=round(at_s, 1),
        jvm=memory_mb_of([jvm]) << 20,
        driver=memory_mb_of([python]) << 20,
        workers=memory_mb_of(workers) << 20,
        dagster=memory_mb_of(processes_under(dagster) - processes_under(jvm)) << 20,
        lag=live.lag or 0,
        commit_age_s=round(time.time() - newest, 2),
        state_bytes=sum(map(_size, rest)),
        state_files=len(rest),
        checkpoint_bytes=sum(map(_size, checkpoint)),
        checkpoint_files=len(checkpoint),
        table_files=len(table),
        log_bytes=sum(map(_size, logs)),
        dagster_bytes=sum(_size(path) for path in home.rglob("*") if path.is_file()),
    )


@contextmanager
def _dagster(loaded: LoadedPipeline, home: Path) -> Iterator[int]:
    """Run ``dagster dev`` for a pipeline; yield its process id."""
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    pipelines = {"DAGSTER_HOME": str(home), "HYBRID_PIPELINES": str(loaded.path)}
    command = [sys.executable, "-m", "dagster", "dev", "-p", str(free_ports(1)[0])]
    with (loaded.path.parent / "dagster.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "-m", "orchestration.definitions"],
            cwd=home,
            env={**os.environ, **pipelines},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield server.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _modified(path: Path) -> float:
    """Return when a file was written, in seconds since 1970; 0 if it was removed meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if the running query has removed it meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _report(samples: list[Sample], rate: int, plot: Path, *, exact: bool) -> int:
    """Record, plot and print the samples and their growth; return the exit status.

    Args:
        samples: All samples.
        rate: Records/s of the input.
        plot: Path of the plot.
        exact: Whether the audit found no difference.
    """
    third = len(samples) // 3
    growth = {}
    for name in SHOWN:
        values = [getattr(sample, name) for sample in samples]
        middle, last = (
            statistics.median(values[third : 2 * third]),
            statistics.median(values[-third:]),
        )
        floor = FLOORS.get(name, 1)
        growth[name] = max(last, floor) / max(middle, floor)
    grown = [name for name, ratio in growth.items() if ratio > MAX_GROWTH]
    document = {
        "rate": rate,
        "minutes": samples[-1].at_s / 60,
        "exact": exact,
        "last third by middle third": {SHOWN[name][0]: ratio for name, ratio in growth.items()},
        "a week by the slope": {SHOWN[name][0]: _after_a_week(samples, name) for name in SHOWN},
        "samples": [sample._asdict() for sample in samples],
    }
    record("soak", document)
    _plot(samples, rate, plot)
    for name, ratio in growth.items():
        sys.stdout.write(f"{SHOWN[name][0]}: last third ÷ middle third {ratio:.3f}\n")
    sys.stdout.write(f"Grown: {', '.join(grown) or 'nothing'}. Table exact: {exact}.\n")
    return 1 if grown or not exact else 0


def _after_a_week(samples: list[Sample], name: str) -> float:
    """Return what a quantity would be after a week at the slope of the second half, in its unit."""
    half = samples[len(samples) // 2 :]
    slope, at_zero = statistics.linear_regression(
        [sample.at_s for sample in half], [getattr(sample, name) for sample in half]
    )
    return round((at_zero + slope * 7 * 24 * 3600) / SHOWN[name][1], 1)


def _plot(samples: list[Sample], rate: int, path: Path) -> None:
    """Draw the samples over time into an SVG file."""
    # A fixed salt, so that the same figures make the same file.
    mpl.rcParams["svg.hashsalt"] = "soak"
    figure, axes = plt.subplots(5, 3, figsize=(11, 11), sharex=True, layout="constrained")
    minutes = [sample.at_s / 60 for sample in samples]
    for axis in axes.flat[len(SHOWN) :]:
        axis.set_axis_off()
    for (name, (title, unit)), axis in zip(SHOWN.items(), axes.flat, strict=False):
        axis.plot(minutes, [getattr(sample, name) / unit for sample in samples], linewidth=1)
        axis.set_title(title, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("minutes")
    figure.suptitle(f"Steady input of {rate:,} records/s")
    figure.savefig(path, metadata={"Date": None})


def _live(loaded: LoadedPipeline) -> KafkaSource:
    """Return the last source of the pipeline, its topic."""
    source = loaded.pipeline.sources[-1]
    assert isinstance(source, KafkaSource)
    return source


def _produce(servers: str, rate: int, stop: threading.Event) -> None:
    """Produce records at a steady rate (records/s) until stopped.

    Raises:
        RuntimeError: The broker did not confirm all of them.
    """
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    number, begun = ROWS, time.monotonic()
    while not stop.wait(0.1):
        due = ROWS + int((time.monotonic() - begun) * rate)
        for n in range(number, due):
            at = now_ms()
            value = json.dumps({"id": n, "at": iso(at), "user": f"user{n % 50}"}).encode()
            producer.produce("events", value, partition=n % 2, timestamp=at)
        number = max(number, due)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("Records were not delivered.")


def _pipeline(folder: Path, servers: str) -> LoadedPipeline:
    """Create topic, history and pipeline file in a folder, and load the pipeline."""
    create_topic(servers, "events", 2, {"retention.ms": "-1"})
    (folder / "soaking.py").write_text(TRANSFORM)
    (folder / "minutes.sql").write_text(SQL)
    (folder / "in").mkdir()
    begin_us = (now_ms() - ROWS) * 1000
    at = pa.array([begin_us + n * 1000 for n in range(ROWS)]).cast(pa.timestamp("us", "UTC"))
    users = [f"user{n % 50}" for n in range(ROWS)]
    table = pa.table({"id": pa.array(range(ROWS), pa.int64()), "at": at, "user": users})
    pq.write_table(table, folder / "in" / "0.parquet")
    document = {
        "name": "soak",
        "event_time": "at",
        "key": ["id"],
        "sources": [
            {"type": "files", "name": "history", "path": "in", "format": "parquet"},
            {
                "type": "kafka",
                "name": "live",
                "topic": "events",
                "bootstrap_servers": servers,
                "trigger_interval": "1 s",
            },
        ],
        "transform": "soaking:minutes",
        "sink": {"path": "out", "mode": "merge", "key": ["start", "user"]},
        "audit": {"sql": "minutes.sql"},
        "state": "state",
        "spark": {"driver_memory": "1g"},
    }
    path = folder / "soak.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path)


if __name__ == "__main__":
    sys.exit(main())
