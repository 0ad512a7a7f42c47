"""Benchmark: read a bounded topic into a Delta table, by planned ranges and by Spark's stream.

    python -m benchmarks.topic_range --rows 2000000 --rounds 6

Prints rows/s of each round and the ratio of the medians, and how fast one process reads records
without Spark.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.session import HERE, race, report, session
from benchmarks.topics import COLUMNS, TOPIC, produce, topic_pipeline
from hybrid_extensions.servers.broker import LocalBroker
from sources.common.positions import TopicPartition
from sources.common.schema import parse_schema
from sources.hand_over import hand_over
from sources.kafka.client.consumer import consumer_settings
from sources.kafka.ranges.cut_ranges import Split
from sources.kafka.ranges.range_reader import RangeReader
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from sources.planning.topics.topic_range import require_range
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import stream_topics
from spark_jobs.inside.readers.topics.parse_records import parse_values
from spark_jobs.inside.readers.topics.planned_topic import PlannedTopic


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        folder = Path(name)
        produce(broker.bootstrap_servers, options.rows)
        loaded = topic_pipeline(folder, broker.bootstrap_servers, HERE)
        make_plan(loaded)
        (source,) = loaded.pipeline.topics
        hand_over(PipelineContext.require(loaded), source)
        generation = loaded.require_generation()
        offset_range = require_range(generation, source.name)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        started = time.monotonic()
        reader = RangeReader(consumer_settings(source))
        partition = TopicPartition(TOPIC, 0)
        count = sum(
            len(batch) for batch in reader.read(Split(partition, 0, offset_range.ends[partition]))
        )
        reader.close()
        speed = count / (time.monotonic() - started)
        sys.stdout.write(f"one reader, without Spark: {speed:,.0f} rows/s\n")
        spark = session(loaded, folder)
        columns = parse_schema(COLUMNS)
        planned = PlannedTopic(
            source, offset_range, generation, COLUMNS, loaded.pipeline.event_time
        )
        planned.prepare()
        contenders: dict[str, Callable[[], DataFrame]] = {
            "project": lambda: planned.stream(spark).select(*columns.names),
            "plain Spark": lambda: parse_values(
                stream_topics(spark, source, offset_range.starts, source.max_offsets_per_batch),
                source,
                COLUMNS,
                generation,
                EventTimeCheck(loaded.pipeline.event_time),
            ).select(*columns.names),
        }
        speeds = race(contenders, options.rounds, options.rows, folder / "out")
        spark.stop()
    report("topic_range", speeds, "project", options.rows)


if __name__ == "__main__":
    main()
