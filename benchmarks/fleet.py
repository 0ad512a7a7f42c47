"""Benchmark: many light pipelines, in one shared driver or in one driver each.

    python -m benchmarks.fleet --pipelines 10 --driver shared
    python -m benchmarks.fleet --pipelines 10 --driver own
    python -m benchmarks.fleet --pipelines 10 --merge

Each pipeline reads a small file and then a topic of its own, on one broker; with ``--merge`` a
topic of changes as Debezium writes them, alone, which it merges. Memory is what the drivers'
processes use (PSS), CPU the seconds that they took; both are right on a busy machine, too, times
are not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer

from benchmarks.processes import cpu_s, end_all, groups_of, memory_mb, processes_of
from benchmarks.record import record
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from orchestration.operations import bounded_run, live_run
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.run_state.heartbeat import read_heartbeat

GROUP = f"benchmark-{os.getpid()}"
_PATIENCE_S = 600.0
_TRANSFORM = "def identity(rows):\n    return rows\n"


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=10)
    parser.add_argument("--driver", choices=["shared", "own"], default="shared")
    parser.add_argument("--merge", action="store_true", help="changes that are merged by key")
    parser.add_argument("--at-once", type=int, default=4, help="launches at the same time")
    parser.add_argument("--rounds", type=int, default=20, help="records for each topic")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds to measure without data")
    parser.add_argument("--servers", help="a running broker; else one is started")
    options = parser.parse_args()
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="hybrid-bench-"))
        servers = options.servers or stack.enter_context(LocalBroker()).bootstrap_servers
        made_of = (options.driver, options.pipelines)
        fleet = _Fleet(Path(name), servers, *made_of, merges=options.merge)
        try:
            result = {"driver": options.driver, "pipelines": options.pipelines}
            result |= fleet.start(options.at_once)
            result |= fleet.feed(options.rounds)
            result |= fleet.rest(options.idle)
        finally:
            fleet.end()
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")
    kind = "merging" if options.merge else "fleet"
    record(f"{kind}-{options.driver}-{options.pipelines}", result)


class _Fleet:
    """Light pipelines of one kind of driver."""

    def __init__(
        self, folder: Path, servers: str, driver: str, count: int, *, merges: bool
    ) -> None:
        self._servers = servers
        self._driver = driver
        self._merges = merges
        self._pipelines = [self._made(folder / f"p{number:03}") for number in range(count)]

    def start(self, at_once: int) -> dict[str, Any]:
        """Load history and start all live runs; the plans are made before."""
        for loaded in self._pipelines:
            make_plan(loaded)
        begun = time.monotonic()
        first: list[float] = []

        def go(loaded: LoadedPipeline) -> None:
            context = PipelineContext.require(loaded)
            if not self._merges:
                bounded_run.run_bounded(context, loaded.pipeline.sources[0], rest_requested=True)
            hand_over(context, loaded.pipeline.topics[-1])
            live_run.go_live(context, loaded.pipeline.topics[-1])
            first.append(time.monotonic() - begun)

        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(go, self._pipelines))
        return {
            "first live after s": round(first[0], 1),
            "all live after s": round(time.monotonic() - begun, 1),
            "cpu s to start all": round(cpu_s(self._groups()), 1),
        }

    def feed(self, rounds: int) -> dict[str, Any]:
        """Write a record to each topic, once a second, and look when they are committed."""
        cpu = cpu_s(self._groups())
        producer = Producer({"bootstrap.servers": self._servers})
        for number in range(rounds):
            for loaded in self._pipelines:
                made = _change(number) if self._merges else _row(1000 + number)
                producer.produce(_topic(loaded), made)
            producer.flush()
            time.sleep(1)
        waited: list[float] = []
        deadline = time.monotonic() + _PATIENCE_S
        while len(waited) < rounds * len(self._pipelines) and time.monotonic() < deadline:
            time.sleep(1)
            waited = sorted(s for loaded in self._pipelines for s in _waited_s(loaded).values())
        return {
            "records": len(waited),
            "freshness s, median": round(statistics.median(waited), 2),
            "freshness s, p90": round(waited[int(len(waited) * 0.9)], 2),
            "cpu s while fed": round(cpu_s(self._groups()) - cpu, 1),
            "memory MB": memory_mb(self._groups()),
            "processes": len(processes_of(self._groups())),
        }

    def rest(self, seconds: float) -> dict[str, Any]:
        """Measure the drivers while nothing arrives."""
        cpu, begun = cpu_s(self._groups()), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - begun
        ages = [
            time.time() - beat.at_ms / 1000
            for loaded in self._pipelines
            if (beat := read_heartbeat(loaded.require_generation(), "live")) is not None
        ]
        return {
            "idle cpu, % of a core": round((cpu_s(self._groups()) - cpu) / passed * 100, 1),
            "oldest heartbeat s": round(max(ages), 1),
            "memory MB, idle": memory_mb(self._groups()),
        }

    def end(self) -> None:
        """Stop all runs."""
        end_all(self._pipelines)

    def _made(self, folder: Path) -> LoadedPipeline:
        folder.mkdir()
        name = folder.name
        create_topic(self._servers, f"{GROUP}-{name}", 1, {"retention.ms": "-1"})
        (folder / "in").mkdir()
        (folder / "transforms.py").write_text(_TRANSFORM)
        at = pa.array([datetime.now(UTC)] * 100, pa.timestamp("us", "UTC"))
        table = pa.table({"id": pa.array(range(100), pa.int64()), "at": at})
        pq.write_table(table, folder / "in" / "0.parquet")
        edit = _merging if self._merges else dict[str, Any]
        share = {"driver": "shared", "group": GROUP} if self._driver == "shared" else {}
        document = {
            "name": name,
            "event_time": "at",
            "key": ["id"],
            "sources": [
                {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"},
                {
                    "name": "live",
                    "type": "kafka",
                    "topic": f"{GROUP}-{name}",
                    "bootstrap_servers": self._servers,
                },
            ],
            "transform": "transforms:identity",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": "state",
            "spark": {"driver_memory": "2g", "conf": {"spark.ui.enabled": "false"}, **share},
        }
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**document, **edit(document)}))
        return load_pipeline(path)

    def _groups(self) -> set[int]:
        """The process groups of the drivers."""
        return groups_of(self._pipelines)


def _topic(loaded: LoadedPipeline) -> str:
    return f"{GROUP}-{loaded.pipeline.name}"


def _merging(document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a pipeline whose topic has changes of a table, which it merges."""
    topic = {
        **document["sources"][1],
        "start": "earliest",
        "format": "debezium",
        "table": "public.t",
        "schema": {"id": "bigint", "note": "string"},
        "include": {"at": "committed_at", "_position": "position", "_deleted": "deleted"},
    }
    sink = {"path": "out", "mode": "merge", "key": ["id"]}
    sink |= {"sequence": "_position", "deleted": "_deleted"}
    return {"key": [], "sources": [topic], "sink": sink}


def _change(number: int) -> bytes:
    """Return an insert, as Debezium writes it for PostgreSQL."""
    origin = {
        "connector": "postgresql",
        "ts_ms": int(time.time() * 1000),
        "schema": "public",
        "table": "t",
        "lsn": number + 1,
        "sequence": f'["{number}","{number + 1}"]',
    }
    row = {"id": 1000 + number, "note": f"number {number}"}
    return json.dumps({"before": None, "after": row, "source": origin, "op": "c"}).encode()


def _row(number: int) -> bytes:
    now = datetime.now(UTC).isoformat()
    return json.dumps({"id": number, "at": now}).encode()


def _waited_s(loaded: LoadedPipeline) -> dict[int, float]:
    """Return the seconds from the production of each record of the topic to its first commit."""
    waited: dict[int, float] = {}
    folder = Path(loaded.target.url)
    for path in sorted((folder / "_delta_log").glob("*.json")):
        for line in path.read_text().splitlines():
            added = json.loads(line).get("add")
            if added is None:
                continue
            rows = pq.read_table(folder / added["path"]).to_pylist()
            committed = path.stat().st_mtime
            for row in rows:
                if row["id"] >= 1000:
                    waited.setdefault(row["id"], committed - row["at"].timestamp())
    return waited


if __name__ == "__main__":
    main()
