"""Benchmark: a plan of many objects, a promotion of many files, small micro-batches, all in S3.

    python -m benchmarks.lake --objects 2000 --files 1000 --rounds 2
    python -m benchmarks.lake --gateway ~/go/bin/versitygw --objects 100000 --files 10000
    python -m benchmarks.lake --endpoint http://minio:9000 --bucket lake --objects 100000

Without an endpoint a local server is started: a Versity gateway behind a proxy that counts and
delays requests, or without ``--gateway`` the server of the tests, which answers one request at a
time and is slow itself. Of a store of one's own the login is in the environment
(``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``), and its bucket has to exist; requests are not
counted. What is written to it is removed at the end. Files have one row each, so that times are
those of requests. Each part can be left out, and has a record of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer
from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake.transaction import AddAction

from benchmarks.record import record
from benchmarks.store import CountingProxy, Gateway, tell
from hybrid_extensions.generations.files.take_over import prepare
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from hybrid_extensions.servers.s3 import LOGIN, LocalS3, client
from orchestration.catch_up import wait_until_caught_up
from orchestration.chain import ChainRun, Observer, run_chain
from orchestration.operations import stopping
from orchestration.supervision.supervisor import tick
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.files.listing.source_listing import list_source
from sources.planning.context import PipelineContext
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from spark_jobs.table.delta_table import open_table

_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_FOLDERS = 100
_AT_ONCE = 32
_DELAYS_MS = (0, 20)
_WARM_UP = 5
_STILL_S = 15.0
_IDLE_S = 60.0
_BUCKET = "bench"
_TOPIC = "events"
_COUNTING = "tests.services.s3_app"
"""The local server with a counter of requests, and delays."""


class Lake:
    """A place in a store, and how many requests it has got.

    Args:
        place: URL, such as ``s3://bucket/prefix``.
        endpoint: URL of the store.
        is_local: Whether it is the local server, which counts.
    """

    def __init__(self, place: str, endpoint: str, *, is_local: bool) -> None:
        self.place, self._endpoint, self._is_local = place, endpoint, is_local

    def pipeline(self, folder: Path, name: str, **changes: Any) -> LoadedPipeline:
        """Write a pipeline that has everything in the store, and return it."""
        document = {
            "name": name,
            "event_time": "at",
            "key": ["id"],
            "sources": [
                {
                    "type": "files",
                    "name": "history",
                    "path": f"{self.place}/{name}/in/**/*.parquet",
                    "format": "parquet",
                }
            ],
            "transform": "transforms:identity",
            "sink": {"path": f"{self.place}/{name}/out", "mode": "append", "key": ["id"]},
            "state": f"{self.place}/{name}/state",
            "s3": {"endpoint": self._endpoint},
            **changes,
        }
        (folder / "transforms.py").write_text("def identity(rows):\n    return rows\n")
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        return load_pipeline(path)

    def requests(self) -> int | None:
        """Number of requests since the last call; None if the store does not tell."""
        return sum(self.kinds().values()) if self._is_local else None

    def kinds(self) -> dict[str, int]:
        """Requests since the last call by kind, the most frequent first; empty as above."""
        found: dict[str, int] = tell(self._endpoint, "requests") if self._is_local else {}
        return dict(sorted(found.items(), key=lambda kind: -kind[1]))

    def delay(self, milliseconds: float) -> None:
        """Let the local server answer each request later."""
        if self._is_local:
            tell(self._endpoint, "faults", delay_s=milliseconds / 1000)


def main() -> None:
    """Run the parts of the benchmark that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=2000, help="of the plan; 0 for none")
    parser.add_argument("--files", type=int, default=1000, help="of the promotion; 0 for none")
    parser.add_argument("--rounds", type=int, default=3, help="of micro-batches; 0 for none")
    parser.add_argument("--seconds", type=float, default=40, help="of each of these rounds")
    parser.add_argument("--gateway", type=Path, help="program of a Versity gateway to be started")
    parser.add_argument("--endpoint", help="URL of a store; a local one is started if left out")
    parser.add_argument("--bucket", default=_BUCKET)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with ExitStack() as stack:
        endpoint = options.endpoint
        if endpoint is None:
            os.environ.update(LOGIN)
            if options.gateway is None:
                endpoint = stack.enter_context(LocalS3(_COUNTING)).endpoint
            else:
                gateway = stack.enter_context(Gateway(options.gateway))
                endpoint = stack.enter_context(CountingProxy(gateway.port)).endpoint
            client(endpoint).create_bucket(Bucket=options.bucket)
        place = f"s3://{options.bucket}/{uuid.uuid4().hex[:8]}"
        lake = Lake(place, endpoint, is_local=options.endpoint is None)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hybrid-bench-")))
        if options.objects:
            results["plan"] = _plan(lake, folder, options.objects)
        if options.files:
            results["promotion"] = _promotion(lake, folder, options.files)
        if options.rounds:
            times = options.rounds, options.seconds
            results["micro-batches"] = _micro_batches(lake, folder, *times)
        lake.pipeline(folder, "end").pipeline.stores.folder(place).delete_all()
    for name, result in results.items():
        record(f"lake-{name}", result)
    sys.stdout.write(json.dumps(results, indent=1) + "\n")


def _rows(number: int) -> pa.Table:
    moment = _BEGIN + timedelta(seconds=number)
    return pa.table(
        {
            "id": pa.array([number], pa.int64()),
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
        }
    )


def _put(folder: Folder, names: list[str]) -> None:
    """Write a Parquet file of one row for each name."""

    def one(number: int) -> None:
        content = BytesIO()
        pq.write_table(_rows(number), content, compression="none")
        folder.documents.put(folder.location(names[number]), content.getvalue())

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(one, range(len(names))):
            pass


def _plan(lake: Lake, folder: Path, objects: int) -> dict[str, Any]:
    """List and plan objects, as a first run does."""
    loaded = lake.pipeline(folder, "many")
    names = [f"in/{n % _FOLDERS:03}/{n:07}.parquet" for n in range(objects)]
    _put(loaded.pipeline.stores.folder(f"{lake.place}/many"), names)
    (source,) = loaded.pipeline.sources
    lake.requests()
    started, worked = time.monotonic(), _work()
    listing = list_source(loaded, source)  # type: ignore[arg-type]
    seconds, work = time.monotonic() - started, _work() - worked
    assert listing.splits.num_rows == objects
    return {
        "objects": objects,
        "seconds": round(seconds, 2),
        "core-seconds of the planner": round(work, 2),
        "requests per object": _per(lake.requests(), objects),
    }


def _work() -> float:
    """Core-seconds of this process and of those that it has started and that have ended."""
    return sum(os.times()[:4])


def _promotion(lake: Lake, folder: Path, files: int) -> dict[str, Any]:
    """Replace a target by a table of many files: copied from elsewhere, and where they lie."""
    loaded = lake.pipeline(folder, "promoted")
    found = {}
    for name, inside in (("copied", False), ("by reference", True)):
        target = loaded.pipeline.stores.folder(f"{lake.place}/promoted/{name.replace(' ', '-')}")
        other = target.folder("_generations/g2") if inside else target.sibling(".g2")
        for table in (target, other):
            options = table.documents.delta_options
            write_deltalake(table.url, _rows(0), storage_options=options)
        _add(other, files - 1)
        lake.requests()
        started = time.monotonic()
        prepare(target, other, None).commit({}, {})
        found[name] = {
            "seconds": round(time.monotonic() - started, 2),
            "requests": lake.requests(),
        }
        assert len(open_table(target).file_uris()) == files
    return {"files": files, **found}


def _add(table: Folder, files: int) -> None:
    """Add files of one row to a Delta table."""
    names = [f"part-{n:06}.parquet" for n in range(files)]
    _put(table, names)
    opened = open_table(table)
    actions = [
        AddAction(
            path=name,
            size=1000,
            partition_values={},
            modification_time=0,
            data_change=True,
            stats=json.dumps({"numRecords": 1}),
        )
        for name in names
    ]
    done = CommitProperties(app_transactions=[Transaction("bench", 0)])
    opened.create_write_transaction(
        actions, "append", opened.schema(), partition_by=None, commit_properties=done
    )


def _micro_batches(lake: Lake, folder: Path, count: int, seconds: float) -> dict[str, Any]:
    """Measure small micro-batches of a live run, at 0 and at 20 ms a request in turns.

    Records come all the time, so a micro-batch begins when the one before it is committed.

    Args:
        lake: Where everything is.
        folder: For the pipeline's file and the broker.
        count: Rounds.
        seconds: Of each round.
    """
    with LocalBroker(folder / "broker") as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, _TOPIC, 1)
        sources = [
            {
                "type": "files",
                "name": "history",
                "path": f"{lake.place}/live/in/*.parquet",
                "format": "parquet",
                "complete_through": _BEGIN.isoformat(),
            },
            {
                "type": "kafka",
                "name": "live",
                "bootstrap_servers": servers,
                "topic": _TOPIC,
                "format": "json",
                "schema": {"id": "bigint", "at": "timestamp"},
                "trigger_interval": "100 ms",
            },
        ]
        loaded = lake.pipeline(folder, "live", sources=sources)
        _put(loaded.pipeline.stores.folder(f"{lake.place}/live"), ["in/0.parquet"])
        is_over = threading.Event()
        feed = threading.Thread(target=_feed, args=(servers, is_over))
        feed.start()
        try:
            run_chain(ChainRun(loaded, Observer(), rest_requested=True))
            checkpoint = loaded.require_generation().checkpoint
            rounds = [
                _batches(lake, checkpoint, seconds, ms) for _ in range(count) for ms in _DELAYS_MS
            ]
            is_over.set()
            feed.join()
            return {"by round": rounds, **_without_batches(lake, loaded, checkpoint, seconds)}
        finally:
            is_over.set()
            feed.join()
            stopping.stop(loaded)


def _batches(lake: Lake, checkpoint: Folder, seconds: float, delay_ms: float) -> dict[str, Any]:
    """Count what is committed and requested within some seconds at a delay."""
    lake.delay(delay_ms)
    # The first ones warm up what was not needed before.
    _wait_for(checkpoint, _WARM_UP)
    first = offset_log.last_committed(checkpoint) or 0
    lake.requests()
    started = time.monotonic()
    time.sleep(seconds)
    last = offset_log.last_committed(checkpoint) or 0
    took, done = time.monotonic() - started, last - first
    kinds = lake.kinds()
    return {
        "ms a request": delay_ms,
        "micro-batches": done,
        "seconds each": round(took / done, 2),
        "requests each": round(sum(kinds.values()) / done, 2),
        "writes and listings each": round(_writes_and_listings(kinds) / done, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def _without_batches(
    lake: Lake, loaded: LoadedPipeline, checkpoint: Folder, seconds: float
) -> dict[str, Any]:
    """Count the requests of a live run without input, and of one look of the supervision."""
    lake.delay(0)
    wait_until_caught_up(PipelineContext.require(loaded))
    _wait_until_still(checkpoint)
    lake.requests()
    seconds = max(seconds, _IDLE_S)
    time.sleep(seconds)
    idle = lake.kinds()
    # What the first look remembers, later ones find.
    tick(loaded)
    lake.kinds()
    tick(loaded)
    looked = lake.kinds()
    return {
        "idle requests an hour": round(sum(idle.values()) * 3600 / seconds),
        "idle writes and listings an hour": round(_writes_and_listings(idle) * 3600 / seconds),
        "requests of a look": sum(looked.values()),
        "writes and listings of a look": _writes_and_listings(looked),
        "idle": idle,
        "look": looked,
    }


def _writes_and_listings(kinds: dict[str, int]) -> int:
    """Return how many requests are of the kinds that cost ten times as much as reads."""
    return sum(count for kind, count in kinds.items() if kind.split()[0] in ("PUT", "POST", "LIST"))


def _wait_for(checkpoint: Folder, batches: int) -> None:
    """Wait until so many micro-batches were committed."""
    first = offset_log.last_committed(checkpoint) or 0
    while (offset_log.last_committed(checkpoint) or 0) < first + batches:
        time.sleep(1)


def _wait_until_still(checkpoint: Folder) -> None:
    """Wait until no micro-batch was committed for some seconds."""
    last = None
    while last != (last := offset_log.last_committed(checkpoint)):
        time.sleep(_STILL_S)


def _feed(servers: str, is_over: threading.Event) -> None:
    """Write ten records a second."""
    producer, number = Producer({"bootstrap.servers": servers}), 0
    while not is_over.wait(0.1):
        number += 1
        moment = (_BEGIN + timedelta(seconds=number)).isoformat()
        producer.produce(_TOPIC, json.dumps({"id": number, "at": moment}))
        producer.poll(0)
    producer.flush(10)


def _per(requests: int | None, count: float) -> float | None:
    return None if requests is None else round(requests / count, 2)


if __name__ == "__main__":
    main()
