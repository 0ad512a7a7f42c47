"""Soak test: a live run under steady input for half an hour, to find out whether anything grows.

    python -m benchmarks.soak --rate 500

The pipeline merges windows over a topic that receives ``--rate`` records/s into a Delta table, and
the supervision runs next to it. Every 5 s it samples the resident memory of the Spark driver's JVM,
of its Python process and of the supervision, the lag, and bytes and files of the state folder. It
draws a plot of them. The exit status is 1 if one of them grew, or if the table is not exact at the
end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer

from benchmarks.record import record
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from orchestration import operations
from orchestration.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.cli import console
from orchestration.supervision.status import status
from sources.common.positions import iso, now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.planning.context import PipelineContext
from spark_jobs.launch.launch_record import last_launch

SAMPLE_INTERVAL_S = 5.0
ROWS = 20_000
# Largest allowed ratio of the median of the last third of the samples to that of the middle third.
MAX_GROWTH = 1.10
WATCH = """
import sys, time
from pathlib import Path
from orchestration.supervision import supervisor
from sources.config.loader import load_pipeline
while True:
    supervisor.tick(load_pipeline(Path(sys.argv[1])))
    time.sleep(10)
"""
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
    """One sample of a running pipeline.

    Attributes:
        at_s: Seconds since the first sample began.
        jvm: Resident memory of the driver's JVM, in bytes.
        driver: Resident memory of the driver's Python process, in bytes.
        supervision: Resident memory of the supervision, in bytes.
        lag: Records of the topic that the live run has not committed.
        state_bytes: Size of the state folder, in bytes.
        state_files: Number of files in the state folder.
    """

    at_s: float
    jvm: int
    driver: int
    supervision: int
    lag: int
    state_bytes: int
    state_files: int


# By field of a sample: its title in plot and report, and the unit of the plot.
SHOWN = {
    "jvm": ("driver, JVM (MiB)", 1 << 20),
    "driver": ("driver, Python (MiB)", 1 << 20),
    "supervision": ("supervision (MiB)", 1 << 20),
    "lag": ("lag (records)", 1),
    "state_bytes": ("state folder (MiB)", 1 << 20),
    "state_files": ("state folder (files)", 1),
}


def main() -> int:
    """Run the soak test; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
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
            operations.stop(loaded)
        report = audit(loaded)
    return _report(samples, options.rate, options.plot, exact=report.ok)


def _watch(loaded: LoadedPipeline, seconds: float) -> list[Sample]:
    """Sample a live run for some time, with the supervision running next to it.

    Raises:
        RuntimeError: The live run is no longer running.
    """
    generation = loaded.require_generation()
    launch = last_launch(generation)
    assert launch is not None
    assert launch.group is not None
    samples: list[Sample] = []
    with subprocess.Popen([sys.executable, "-c", WATCH, str(loaded.path)]) as supervision:
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            time.sleep(SAMPLE_INTERVAL_S)
            live = status(loaded).sources[-1]
            if live.heartbeat is None or live.state != "running":
                message = f"The live run is {live.state}."
                raise RuntimeError(message)
            files = [path for path in generation.root.rglob("*") if path.is_file()]
            sample = Sample(
                round(time.monotonic() - begun, 1),
                _resident(launch.group),
                _resident(live.heartbeat.pid),
                _resident(supervision.pid),
                live.lag or 0,
                sum(_size(path) for path in files),
                len(files),
            )
            samples.append(sample)
            if len(samples) % 12 == 0:
                sys.stdout.write(f"{sample}\n")
                sys.stdout.flush()
        supervision.kill()
    return samples


def _resident(pid: int) -> int:
    """Return the resident memory of a process, in bytes.

    Raises:
        RuntimeError: The process has ended.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    message = f"Process {pid} has ended."
    raise RuntimeError(message)


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
        # A lag of less than the input of two seconds does not count.
        floor = 2 * rate if name == "lag" else 1
        growth[name] = max(last, floor) / max(middle, floor)
    grown = [name for name, ratio in growth.items() if ratio > MAX_GROWTH]
    document = {
        "rate": rate,
        "minutes": samples[-1].at_s / 60,
        "exact": exact,
        "last third by middle third": {SHOWN[name][0]: ratio for name, ratio in growth.items()},
        "samples": [sample._asdict() for sample in samples],
    }
    record("soak", document)
    _plot(samples, rate, plot)
    for name, ratio in growth.items():
        sys.stdout.write(f"{SHOWN[name][0]}: last third ÷ middle third {ratio:.3f}\n")
    sys.stdout.write(f"Grown: {', '.join(grown) or 'nothing'}. Table exact: {exact}.\n")
    return 1 if grown or not exact else 0


def _plot(samples: list[Sample], rate: int, path: Path) -> None:
    """Draw the samples over time into an SVG file."""
    # A fixed salt, so that the same figures make the same file.
    mpl.rcParams["svg.hashsalt"] = "soak"
    figure, axes = plt.subplots(3, 2, figsize=(9, 7), sharex=True, layout="constrained")
    minutes = [sample.at_s / 60 for sample in samples]
    for (name, (title, unit)), axis in zip(SHOWN.items(), axes.T.flat, strict=True):
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
