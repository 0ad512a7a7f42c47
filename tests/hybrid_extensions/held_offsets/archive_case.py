"""Archives of a topic with columns of partition and offset, and topics with transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from tests.e2e.case import Case, as_json, moment

Edit = Callable[[dict[str, Any]], None]


def archive(case: Case, rows: Iterable[tuple[int, int, int]], **columns: list[Any]) -> None:
    """A Parquet file of (partition, offset, event), in several row groups."""
    (case.folder / "in").mkdir(exist_ok=True)
    every = list(rows)
    table = pa.table(
        {
            "id": pa.array([n for _, _, n in every], pa.int64()),
            "at": pa.array([moment(n) for _, _, n in every], pa.timestamp("us", "UTC")),
            "v": pa.array([n / 2 for _, _, n in every], pa.float64()),
            "_p": pa.array([partition for partition, _, _ in every], pa.int32()),
            "_o": pa.array([offset for _, offset, _ in every], pa.int64()),
            **columns,
        }
    )
    pq.write_table(table, case.folder / "in" / "part.parquet", row_group_size=64)


def by_columns(*more: Edit) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        document["allowed_lateness"] = "0 s"
        document["sources"][0].update(
            schema={"id": "bigint", "at": "timestamp", "v": "double"},
            offsets={"partition": "_p", "offset": "_o"},
        )
        for each in more:
            each(document)

    return edit


def in_order(count: int, partitions: int = 1) -> list[tuple[int, int, int]]:
    """The first offsets of each partition, with the events that :class:`Case` puts there."""
    return [(n % partitions, n // partitions, n) for n in range(count)]


def in_transactions(case: Case, count: int, size: int) -> list[tuple[int, int]]:
    """Committed transactions of some events each, one aborted after each; offsets and events."""
    producer = Producer({"bootstrap.servers": case.servers, "transactional.id": case.topic})
    producer.init_transactions(30)
    written: list[tuple[int, int]] = []
    for first in range(0, count, size):
        numbers = range(first, min(first + size, count))
        for is_kept in (True, False):
            producer.begin_transaction()
            for n in numbers:
                producer.produce(
                    case.topic,
                    as_json(n).encode(),
                    timestamp=int(moment(n).timestamp() * 1000),
                    on_delivery=(
                        (lambda _, sent, n=n: written.append((sent.offset(), n)))
                        if is_kept
                        else None
                    ),
                )
            # Otherwise an aborted record never reaches the log.
            producer.flush(30)
            (producer.commit_transaction if is_kept else producer.abort_transaction)(30)
    return sorted(written)
