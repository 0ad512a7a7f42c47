"""Benchmark: training rows that differ from what was served, by the order that history is read in.

    python -m benchmarks.skew

The same events three times: live from the first one on, as a service has seen them, and as history
in files, once in order of event time and once in order of arrival. Some events arrive late, part of
them later than the watermark waits. From each table the same labels get the values that were known
at their times; a training row differs if a value is not the one that the live table gives.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from benchmarks.flink.project_works import run
from benchmarks.record import record
from benchmarks.session import HERE, session
from benchmarks.topics import deliver, send
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from hybrid_extensions.training.columns import Asked
from hybrid_extensions.training.point_in_time import training_set
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline

# A whole number of intervals, so that those of arrival begin with micro-batches of the live run.
_BEGIN_S = 944_444 * 1800
_EVERY_S = 1800
_KEYS = 50
_SEED = 24
_TRANSFORM = """
from pyspark.sql import functions as F

def hourly(rows):
    windows = rows.withWatermark("at", "30 minutes").groupBy("key", F.window("at", "1 hour"))
    found = windows.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    known = F.col("window.end") + F.expr("INTERVAL 30 MINUTES")
    at = F.col("window.start").alias("at")
    return found.select("key", at, "n", "total", known.alias("known_at"))
"""


@dataclass(frozen=True)
class _Events:
    """Events in their order of arrival; arrays of the same length.

    Attributes:
        key: What an event is about.
        at_us: When it happened, in µs since 1970.
        arrived_us: When it arrived, rising.
        value: A whole number.
    """

    key: Any
    at_us: Any
    arrived_us: Any
    value: Any


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=96_000)
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--late", type=float, default=0.1, help="share of events that come late")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        result = _measure(Path(name), broker.bootstrap_servers, options)
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")
    record("skew", result)


def _measure(folder: Path, servers: str, options: argparse.Namespace) -> dict[str, Any]:
    """Compute the three tables and their training sets; return how many rows differ."""
    events = _events(options.events, options.days, options.late)
    batch = options.events // (options.days * 86_400 // _EVERY_S)
    (folder / "hourly.py").write_text(_TRANSFORM)
    _write(folder, events)
    create_topic(servers, "events", 1, {"retention.ms": "-1"})
    _produce(servers, events)
    labels = _labels(options.labels, options.days)
    tables = {
        "live": _live(folder, servers, batch),
        "event time": _history(folder, "event_time", {}),
        "arrival": _history(
            folder, "arrival", {"order": {"arrival": "arrived", "every": f"{_EVERY_S} s"}}
        ),
    }
    spark = session(tables["live"], folder)
    sets = {}
    for order, loaded in tables.items():
        run(spark, loaded)
        sets[order] = training_set(loaded, labels, Asked(time="asked_at")).rows
    spark.stop()
    live = sets.pop("live")
    return {
        "events": options.events,
        "late": int((events.arrived_us - events.at_us > _EVERY_S * 1_000_000).sum()),
        "labels": options.labels,
        "known": len(live) - live["known_at"].null_count,
        "differ": {order: _different(live, rows) for order, rows in sets.items()},
    }


def _events(number: int, days: int, late: float) -> _Events:
    """Return events that arrive evenly; a share of them up to three hours after they happened."""
    random = np.random.default_rng(_SEED)
    step_us = days * 86_400_000_000 // number
    arrived = _BEGIN_S * 1_000_000 + np.arange(number) * step_us
    delay = random.integers(0, 60_000_000, number)
    is_late = random.random(number) < late
    delay[is_late] = random.integers(0, 3 * 3_600_000_000, int(is_late.sum()))
    return _Events(
        key=random.integers(0, _KEYS, number),
        at_us=arrived - delay,
        arrived_us=arrived,
        value=random.integers(0, 1000, number),
    )


def _write(folder: Path, events: _Events) -> None:
    """Write the events as files of a day each, by the time of their arrival."""
    (folder / "in").mkdir()
    day = (events.arrived_us - events.arrived_us[0]) // 86_400_000_000
    for each in np.unique(day):
        of_day = day == each
        columns = {
            "key": pa.array(events.key[of_day], pa.int64()),
            "at": pa.array(events.at_us[of_day], pa.timestamp("us", "UTC")),
            "v": pa.array(events.value[of_day], pa.int64()),
            "arrived": pa.array(events.arrived_us[of_day], pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(columns), folder / "in" / f"{each:03}.parquet")


def _produce(servers: str, events: _Events) -> None:
    """Produce the events in their order of arrival, the timestamp of each record."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
    times = np.datetime_as_string(events.at_us.astype("datetime64[us]"))
    rows = zip(events.key, times, events.value, events.arrived_us, strict=True)
    for key, at, value, arrived_us in rows:
        text = json.dumps({"key": int(key), "at": f"{at}Z", "v": int(value)})
        send(producer, "events", text, partition=0, timestamp=int(arrived_us) // 1000)
    deliver(producer)


def _labels(number: int, days: int) -> pa.Table:
    """Return labels at random times after the first three hours."""
    random = np.random.default_rng(_SEED + 1)
    at = random.integers(10_800_000_000, days * 86_400_000_000, number) + _BEGIN_S * 1_000_000
    keys = pa.array(random.integers(0, _KEYS, number), pa.int64())
    times = pa.array(at, pa.timestamp("us", "UTC"))
    return pa.table({"key": keys, "asked_at": times})


def _live(folder: Path, servers: str, batch: int) -> LoadedPipeline:
    """Return the pipeline that reads all events live, as many at once as arrive in an interval."""
    source = {
        "type": "kafka",
        "name": "live",
        "topic": "events",
        "bootstrap_servers": servers,
        "start": "earliest",
        "schema": {"key": "bigint", "at": "timestamp", "v": "bigint"},
        "include": {"arrived": "timestamp"},
        "max_offsets_per_batch": batch,
        "trigger_interval": "1 ms",
    }
    return _pipeline(folder, "live", source)


def _history(folder: Path, name: str, order: dict[str, Any]) -> LoadedPipeline:
    """Return the pipeline that reads all events from files, in an order."""
    source = {
        "type": "files",
        "name": "history",
        "path": "in/*.parquet",
        "format": "parquet",
        **order,
    }
    return _pipeline(folder, name, source)


def _pipeline(folder: Path, name: str, source: dict[str, Any]) -> LoadedPipeline:
    document = {
        "name": name,
        "event_time": "at",
        "sources": [source],
        "transform": "hourly:hourly",
        "sink": {"path": f"out-{name}", "mode": "append", "key": ["key", "at"]},
        "supervision": {"late_rows": {"history": None}},
        "state": f"state-{name}",
        "spark": HERE,
    }
    return LoadedPipeline(folder / f"{name}.yaml", Pipeline.model_validate(document))


def _different(live: pa.Table, rows: pa.Table) -> int:
    """Return the number of labels whose values are not those of the live table."""
    values = [name for name in live.column_names if name not in {"key", "asked_at"}]
    pairs = zip(live.select(values).to_pylist(), rows.select(values).to_pylist(), strict=True)
    return sum(served != trained for served, trained in pairs)


if __name__ == "__main__":
    main()
