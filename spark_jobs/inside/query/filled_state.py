"""RocksDB settings while history fills the state of operators: no changelog, no count of keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.inside.query.query_sources import QueryDeclaration

FILLING = {
    f"spark.sql.streaming.stateStore.rocksdb.{name}": value
    for name, value in {
        # A changelog of history would be applied again, row by row, by each query that starts
        # before the first ten micro-batches have made a snapshot: the first live one, too.
        "changelogCheckpointing.enabled": "false",
        # Counting looks up each key before it is put. The first live query counts them at once.
        "trackTotalNumberOfRows": "false",
    }.items()
}
"""What differs from the settings of the live run, which the launch gives (``STATE_STORE``)."""


@contextmanager
def filling_state(spark: SparkSession, query: QueryDeclaration) -> Iterator[None]:
    """Set RocksDB up for state that is filled in bulk, while a bounded source's query is started.

    Spark allows both settings to differ between runs on one checkpoint, and a query keeps those
    that its session had when it was started. A setting that the pipeline declares is left alone.
    See "RocksDB State Store Changelog Checkpointing" and "Performance-aspect considerations" in
    https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html.

    Args:
        spark: The session that starts the query.
        query: Declaration of the query.
    """
    declared = query.context.pipeline.spark.conf
    filling = {name: FILLING[name] for name in FILLING.keys() - declared.keys()}
    before = {name: spark.conf.get(name, None) for name in filling} if query.is_bounded else {}
    try:
        for name in before:
            spark.conf.set(name, filling[name])
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
