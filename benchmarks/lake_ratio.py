"""Benchmark: history and catching up with everything on a disk, and with everything in a bucket.

    python -m benchmarks.lake_ratio history --gateway ~/go/bin/versitygw --rows 3000000 --rounds 3
    python -m benchmarks.lake_ratio catch-up --gateway ~/go/bin/versitygw --rows 2000000 --rounds 3

History reads Parquet files, catching up a topic of JSON. Files, plan, checkpoint and target are on
a disk, or in the bucket of a local gateway that answers at once or 20 ms later. Plain Spark uses
this project's checkpoint manager and log store in the bucket, as its own lose commits there. In
each round all contenders take turns in one Spark session; the first round is not counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from benchmarks.catch_up import project_topic
from benchmarks.history import COLUMNS, generate, planned
from benchmarks.record import record
from benchmarks.session import HERE, in_turns, plain_topic
from benchmarks.store import CountingProxy, Gateway, tell
from benchmarks.topics import TOPIC, produce, topic_pipeline
from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.s3 import LOGIN, client
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.storage.folder import Folder
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.storage_jar import CONF, JAR, use_own_classes
from spark_jobs.launch.launch_record import Place
from spark_jobs.launch.submission.spark_properties import spark_properties

_BUCKET = "bench"
_DELAYS_MS = (0, 20)
_DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
Read = Callable[[LoadedPipeline], DataFrame]


class Contender(NamedTuple):
    """What reads, and where everything is.

    Attributes:
        read: Returns the rows as a stream.
        at: Pipeline with its paths there.
        delay_ms: Delay of each request.
    """

    read: Read
    at: Callable[[], LoadedPipeline]
    delay_ms: float


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["history", "catch-up"])
    parser.add_argument("--gateway", type=Path, required=True, help="program of a Versity gateway")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(LOGIN)
    with ExitStack() as stack:
        gateway = stack.enter_context(Gateway(options.gateway))
        endpoint = stack.enter_context(CountingProxy(gateway.port)).endpoint
        client(endpoint).create_bucket(Bucket=_BUCKET)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hybrid-bench-")))
        rounds = count()
        at = partial(_pipeline, folder, endpoint, rounds)
        spark = _session(at(f"s3://{_BUCKET}"), folder)
        if options.work == "history":
            _generate(folder, endpoint, options.rows)
            project: Read = partial(planned, spark)
            plain: Read = partial(_plain_files, spark)
        else:
            servers = stack.enter_context(LocalBroker()).bootstrap_servers
            produce(servers, options.rows)
            topic = topic_pipeline(folder, servers, HERE)
            project = partial(_topic, spark, topic)
            plain = partial(_plain_topic, spark, servers)
        places = [("on a disk", str(folder), 0.0)]
        places += [(f"in a bucket, {ms} ms", f"s3://{_BUCKET}", ms) for ms in _DELAYS_MS]
        contenders = {
            f"{name} {where}": Contender(read, partial(at, root), ms)
            for where, root, ms in places
            for name, read in (("project", project), ("plain Spark", plain))
        }
        result = _race(spark, contenders, endpoint, options.rounds, options.rows)
        spark.stop()
    record(f"lake-{options.work}", result)
    for name, speeds in result["rows_per_s"].items():
        sys.stdout.write(f"{name}: {' '.join(f'{speed:,.0f}' for speed in speeds)} rows/s\n")


def _pipeline(folder: Path, endpoint: str, rounds: Iterator[int], root: str) -> LoadedPipeline:
    """Return a pipeline of the files below a root, with a state and a target of its own."""
    number = next(rounds)
    source = {"type": "files", "name": "history", "path": f"{root}/in", "format": "parquet"}
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [{**source, "schema": COLUMNS}],
            "transform": "none:none",
            "sink": {"path": f"{root}/out-{number}", "mode": "append", "key": ["id"]},
            "state": f"{root}/state-{number}",
            "s3": {"endpoint": endpoint},
            "spark": HERE,
        }
    )
    return LoadedPipeline(folder / "bench.yaml", pipeline)


def _session(loaded: LoadedPipeline, scratch: Path) -> SparkSession:
    """Return a session with the settings and jars of a run whose paths are in the bucket."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = [*resolve("spark"), *resolve("s3"), JAR.require()]
    builder = SparkSession.builder.config("spark.jars", ",".join(map(str, jars)))
    for name, value in spark_properties(loaded, Place(), scratch).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    use_own_classes(spark)
    return spark


def _generate(folder: Path, endpoint: str, rows: int) -> None:
    generate(folder / "in", rows, "parquet")
    store = client(endpoint)
    for path in (folder / "in").iterdir():
        store.upload_file(str(path), _BUCKET, f"in/{path.name}")


def _plain_files(spark: SparkSession, loaded: LoadedPipeline) -> DataFrame:
    place = loaded.place(str(loaded.pipeline.sources[0].patterns[0])).hadoop_path
    reader = spark.readStream.schema(_DDL).option("maxFilesPerTrigger", 1000)
    return reader.format("parquet").load(place)


def _topic(spark: SparkSession, topic: LoadedPipeline, _: LoadedPipeline) -> DataFrame:
    (source,) = topic.pipeline.topics
    return project_topic(spark, topic, source)


def _plain_topic(spark: SparkSession, servers: str, _: LoadedPipeline) -> DataFrame:
    row = F.from_json(F.col("value").cast("string"), _DDL)
    return plain_topic(spark, servers, TOPIC).select(row.alias("row")).select("row.*")


def _race(
    spark: SparkSession, contenders: dict[str, Contender], endpoint: str, rounds: int, rows: int
) -> dict[str, Any]:
    """Let contenders write the same rows in turn; return rows/s by round and requests."""
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    requests: dict[str, int] = {}
    for round_ in range(rounds + 1):
        for name in in_turns(list(contenders), round_):
            contender = contenders[name]
            loaded = contender.at()
            tell(endpoint, "faults", delay_s=contender.delay_ms / 1000)
            tell(endpoint, "requests")
            seconds = _written(spark, contender.read, loaded)
            requests[name] = sum(tell(endpoint, "requests").values())
            if round_:
                speeds[name].append(rows / seconds)
            tell(endpoint, "faults", delay_s=0)
            for folder in (loaded.target, loaded.state):
                folder.delete_all()
    load = round(os.getloadavg()[0], 1)
    return {"rows": rows, "rows_per_s": speeds, "requests": requests, "load at the end": load}


def _written(spark: SparkSession, read: Read, loaded: LoadedPipeline) -> float:
    """Write the rows of a stream to the target; return the seconds, planning included."""
    if loaded.target.is_local:
        spark.conf.unset(_MANAGER)
    else:
        spark.conf.set(_MANAGER, CONF[_MANAGER])
    started = time.monotonic()
    writer = read(loaded).writeStream.format("delta").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", _checkpoint(loaded.state).hadoop_path)
    writer.start(loaded.target.hadoop_path).awaitTermination()
    return time.monotonic() - started


def _checkpoint(state: Folder) -> Folder:
    return state.folder("checkpoint")


if __name__ == "__main__":
    main()
