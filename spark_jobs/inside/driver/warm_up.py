"""Warm-up before a switch: load classes, compile code and look up keys for the live query.

While history is read, a few records of the topic go through the live query's own steps into a sink
that discards them. So the first live micro-batch finds a JVM whose code is loaded and compiled, the
keys of history, and a stream that is built. Where tasks will read and write the topic's rows, past
those steps, this would only take time from history. If another driver reads the topic, it finds at
least the keys, whose look-up takes seconds in a JVM that has just started. A failure here is only
logged: whatever is wrong fails the live query again, which reports it.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from sources.config.source.kafka_source import KafkaSource
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.query.places.followed_topic_stream import ExpectedTopic, Prepared
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.launch.submission.spark_properties import POOL

_POLL_S = 0.2
_log = logging.getLogger("hybrid.rehearsal")


@dataclass
class Ahead:
    """The topic after the last bounded source, and what the warm-up prepares for it meanwhile.

    Attributes:
        live: The topic's source.
        is_same_driver: Whether the driver that reads the bounded source reads the topic, too.
        prepared: DataFrame of the topic's rows, built by this driver while history was read; None
            until then, and for good if another driver reads the topic.
    """

    live: KafkaSource
    is_same_driver: bool
    prepared: Prepared | None = None


@contextmanager
def rehearsal(spark: SparkSession, query: QueryDeclaration, ahead: Ahead | None) -> Iterator[None]:
    """Warm up the live query in a thread, as a trial run, while the query over history runs.

    If this driver will read the topic, too, one micro-batch of it goes through the live query's
    steps into a sink that discards it, and ``ahead.prepared`` is set. If another driver will, only
    the keys of history that the seam filter needs are looked up and kept. Nothing is written to the
    target, and nothing is done if the plan has no end of history. A failure is logged and has no
    other effect.

    Args:
        spark: The Spark session.
        query: Declaration of the running query, which reads the last bounded source.
        ahead: The topic that follows; None if there is nothing to rehearse for.

    Yields:
        Nothing; when the ``with`` block ends, the thread is asked to stop, and is not waited for.
    """
    stop = threading.Event()
    if ahead is not None:
        threading.Thread(target=_rehearse, args=(spark, query, ahead, stop), daemon=True).start()
    try:
        yield
    finally:
        # Not joined: nothing waits for a rehearsal that comes too late.
        stop.set()


def expected_topic(query: QueryDeclaration, live: KafkaSource) -> ExpectedTopic | None:
    """Return the topic to warm up for, after a bounded source, with its start by the plan.

    Args:
        query: Declaration of the query that reads the bounded source.
        live: The topic's source.

    Returns:
        None if the end of the bounded source is not known yet.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    end = query.place.end
    return None if end is None else ExpectedTopic(query.context, live, end, query.history)


def _rehearse(
    spark: SparkSession, query: QueryDeclaration, ahead: Ahead, stop: threading.Event
) -> None:
    # Behind history's tasks it would begin when these have ended, and then be in the way.
    spark.sparkContext.setLocalProperty(POOL, f"rehearsal of {ahead.live.name}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        shadow = Generation(Folder(name), query.generation.info)
        try:
            expected = expected_topic(query, ahead.live)
            if expected is None:
                return
            if not ahead.is_same_driver:
                expected.keep_seam_keys(spark)
                return
            if expected.waits_for_table(spark):
                return
            rows = expected.rehearsal(spark, shadow)
            if stop.is_set():
                # From now on it would take from the live query what it is to give it.
                return
            running = (
                rows.writeStream.format("noop")
                .queryName(f"rehearsal of {ahead.live.name}")
                .option("checkpointLocation", shadow.checkpoint.hadoop_path)
                # One micro-batch, at once.
                .trigger(processingTime="1 day")
                .start()
            )
            while running.isActive and running.lastProgress is None and not stop.wait(_POLL_S):
                pass
            running.stop()
            if not stop.is_set():
                ahead.prepared = expected.prepare(spark)
        except Exception:
            _log.info("The live query could not be rehearsed.", exc_info=True)
