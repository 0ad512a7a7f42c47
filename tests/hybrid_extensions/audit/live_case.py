"""A pipeline of files and a topic, with a topic of its own on a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from hybrid_extensions.servers.broker import create_topic
from sources.errors import InputError
from tests.hybrid_extensions.audit.audit_case import Case, Row, row
from tests.services.processes import wait_for

ROWS = [row(number) for number in range(40)]


@dataclass(frozen=True)
class Live:
    """A pipeline of ten rows of history and a topic of two partitions."""

    case: Case
    servers: str
    topic: str

    def send(
        self, values: list[bytes | None], partition: int = 0, commit: bool = True, **more: Any
    ) -> None:
        """Write in one transaction; its end takes up an offset too."""
        settings = {"bootstrap.servers": self.servers, "transactional.id": uuid.uuid4().hex}
        producer = Producer(settings)
        producer.init_transactions()
        producer.begin_transaction()
        for at, value in enumerate(values):
            producer.produce(self.topic, value, partition=partition, timestamp=1_000 + at, **more)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
        # The broker writes the mark of its end later than it answers; readers wait for that mark.
        wait_for(lambda: self._is_ended(partition), "the transaction has not ended", seconds=60)

    def _is_ended(self, partition: int) -> bool:
        """Return whether no transaction holds up readers of a partition."""
        at, latest = TopicPartition(self.topic, partition), OffsetSpec.latest()
        admin = AdminClient({"bootstrap.servers": self.servers})
        stable, last = (
            admin.list_offsets({at: latest}, isolation_level=level)[at].result().offset
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        return bool(stable == last)

    def send_rows(
        self,
        rows: list[Row],
        partition: int = 0,
        at: Callable[[Row], datetime] = lambda each: each["at"],
    ) -> None:
        """Write rows as records whose timestamp is their event time, or as ``at`` says."""
        producer = Producer({"bootstrap.servers": self.servers})
        failed: list[Any] = []
        for each, value in zip(rows, as_json(rows), strict=True):
            at_ms = round(at(each).timestamp() * 1000)
            producer.produce(
                self.topic,
                value,
                partition=partition,
                timestamp=at_ms,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert (producer.flush(30), failed) == (0, [])

    def delete_before(self, offset: int, partition: int = 0) -> None:
        """Let Kafka delete the records before an offset."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        at = TopicPartition(self.topic, partition, offset)
        for future in admin.delete_records([at]).values():
            future.result()

    def sources(self, schema: dict[str, str] | None = None) -> list[dict[str, Any]]:
        """The declaration of both."""
        history = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
        live = {
            "type": "kafka",
            "name": "live",
            "topic": self.topic,
            "bootstrap_servers": self.servers,
            "schema": schema,
        }
        return [history, live]

    def refusal(self, schema: dict[str, str] | None = None) -> str:
        with pytest.raises(InputError) as caught:
            self.case.audit(sources=self.sources(schema))
        return str(caught.value)


def live_case(folder: Path, servers: str) -> Live:
    """Ten rows of history, and an empty topic of two partitions."""
    live = Live(Case(folder), servers, f"flights-{uuid.uuid4().hex}")
    create_topic(servers, live.topic, 2, {"retention.ms": "-1"})
    live.case.history(ROWS[:10])
    return live


def as_json(rows: list[Row]) -> list[bytes | None]:
    return [json.dumps({**row, "at": row["at"].isoformat()}).encode() for row in rows]
