"""A compacted Kafka topic as a second sink: the last row of each key, as JSON.

Each delivery is a transaction, and so is the position: it is the metadata of an offset that a
consumer group of the feed's own commits in the same transaction. A producer that begins fences the
one before it (https://kafka.apache.org/documentation/#semantics), so that a follower that was
replaced writes nothing more.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from hybrid_extensions.feeds.base import AGAIN, REPEATED, FeedSink
from hybrid_extensions.feeds.declare import KafkaFeed
from hybrid_extensions.feeds.delivery import DELETED
from hybrid_extensions.feeds.position import Held, Position
from sources.common.counting import counted
from sources.common.login.security import client_settings
from sources.errors import ErrorFields, InputError, StateError, UnavailableError
from sources.kafka.client.address import resolve_bootstrap
from sources.kafka.client.consumer import QUIET
from sources.kafka.client.kafka_errors import describe

HEADER = "hybrid-feed"
"""Header of each record: the name of the feed that wrote it."""
VERSION = "hybrid-version"
"""Header of each record: the version of the target that the row came with."""
LOOK_S = 10.0
"""Seconds to wait for each answer about the topic."""
_TIMEOUT_S = 30.0
# What a broker allows by default (transaction.max.timeout.ms).
_TRANSACTION_MS = 900_000
_LOAD_ROWS = 200_000
# Brokers forget the offsets of a group without consumers after seven days by default.
_RENEW_S = 6 * 3600


class KafkaSink(FeedSink):
    """Compacted Kafka topic as a second sink; connects at the first call of :meth:`held`.

    Args:
        feed: The declaration.
        owner: ``<pipeline>.<feed>``, which is unique.

    Raises:
        InputError: A field of the login is not valid.
        UnavailableError: The local broker does not run.
    """

    form = "json"

    def __init__(self, feed: KafkaFeed, owner: str) -> None:
        self._feed, self._owner = feed, owner
        self._servers = resolve_bootstrap(feed.bootstrap_servers)
        self._fields: ErrorFields = {"server": self._servers, "topic": feed.topic}
        self._settings = {
            **client_settings(feed.security),
            "bootstrap.servers": self._servers,
        }
        self._group = f"hybrid-feed-{owner}-{feed.topic}"
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._failed: KafkaError | None = None
        self._renewed_s = 0.0
        self._partitions = 0

    def held(self, columns: pa.Schema) -> Held:
        """Return the position of the topic, in a consumer group's offset; create a missing topic.

        Fences another follower's producer. Raises as :meth:`FeedSink.held` says.
        """
        with self._errors():
            if self._producer is None:
                self._connect()
            assert self._producer is not None
            # They may have become more since the last delivery.
            topics = self._producer.list_topics(self._feed.topic, LOOK_S).topics
            self._partitions = len(topics[self._feed.topic].partitions)
            found = self._committed()
            if found is None:
                # It may have been deleted and made again since the first delivery.
                self._make_topic(AdminClient(self._settings, logger=QUIET))
                return Held()
            partitions, position = found
            if partitions != self._partitions:
                message = (
                    f"Topic `{self._feed.topic}` has {counted(self._partitions, 'partition')} now, "
                    f"and had {partitions}: keys have moved to other partitions, and their old "
                    "records stay. Nothing was delivered."
                )
                hint = (
                    f"Name a new topic in `topic`; the whole table is then loaded into it. {AGAIN}"
                )
                raise InputError(message, hint, **self._fields | {"field": "topic"})
            if position is not None and time.monotonic() - self._renewed_s > _RENEW_S:
                with self._transaction() as producer:
                    self._record(producer, position)
                self._renewed_s = time.monotonic()
            return Held(position)

    def begin(self, position: Position) -> None:
        """Do nothing: a delivery is one transaction, so nothing is ever pending."""

    def apply(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Produce a record for each row, and the position, in one transaction.

        A deleted row is a record without a value. Raises as :meth:`FeedSink.apply` says.
        """
        with self._errors(), self._transaction() as producer:
            for batch in rows:
                for row in batch.to_pylist():
                    self._produce(producer, row["key"], None if row[DELETED] else row["row"], end)
            self._record(producer, end)

    def load(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Produce all rows, then delete each key of the topic that is in none of them.

        A record without a value deletes a key. It takes several transactions, and only the last one
        writes the feed's position: one that is killed before begins again. The whole topic is read
        first: nothing is written if another has written to it, or if it can't be read to its end.
        Raises as :meth:`FeedSink.load` says.
        """
        with (
            self._errors(),
            tempfile.TemporaryDirectory(prefix="hybrid-feed-") as folder,
            duckdb.connect(str(Path(folder) / "keys.duckdb")) as keys,
        ):
            keys.execute("CREATE TABLE there (key VARCHAR)")
            for batch in self._topic_keys():
                self._keep_keys(keys, "there", pa.table({"key": pa.array(batch, pa.string())}))
            with self._transaction() as producer:
                self._record(producer, None)
            keys.execute("CREATE TABLE loaded (key VARCHAR)")
            self._load_rows(rows, end, keys)
            stale = keys.execute("SELECT DISTINCT key FROM there WHERE key NOT IN (FROM loaded)")
            with self._transaction() as producer:
                for (key,) in stale.fetchall():
                    self._produce(producer, key, None, end)
                self._record(producer, end)

    def _load_rows(
        self, rows: pa.RecordBatchReader, end: Position, keys: duckdb.DuckDBPyConnection
    ) -> None:
        """Produce all rows in transactions of some rows each, and keep their keys."""
        waiting: list[pa.RecordBatch] = []
        for batch in rows:
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= _LOAD_ROWS:
                self._load_some(waiting, end, keys)
                waiting = []
        self._load_some(waiting, end, keys)

    def _load_some(
        self, batches: list[pa.RecordBatch], end: Position, keys: duckdb.DuckDBPyConnection
    ) -> None:
        if not batches:
            return
        with self._transaction() as producer:
            for batch in batches:
                for key, row in zip(
                    batch["key"].to_pylist(), batch["row"].to_pylist(), strict=True
                ):
                    self._produce(producer, key, row, end)
        self._keep_keys(keys, "loaded", pa.Table.from_batches(batches))

    def _keep_keys(self, keys: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
        keys.register("_rows", rows)
        keys.execute(f"INSERT INTO {table} SELECT key FROM _rows")
        keys.unregister("_rows")

    def _topic_keys(self) -> Iterator[list[str]]:
        """Yield the keys of all records that are there now; refuse records of others."""
        reader = Consumer(
            {
                **self._settings,
                "group.id": self._group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            },
            logger=QUIET,
        )
        try:
            reader.assign([TopicPartition(self._feed.topic, n, 0) for n in range(self._partitions)])
            left = set(range(self._partitions))
            answered_s = time.monotonic()
            while left:
                found: list[str] = []
                messages = reader.consume(10_000, 1.0)
                for message in messages:
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                    elif error is not None:
                        raise KafkaException(error)
                    elif dict(message.headers() or []).get(HEADER) != self._owner.encode():
                        raise self._has_others()
                    elif message.key() is not None:
                        found.append(message.key().decode())
                if messages:
                    answered_s = time.monotonic()
                elif time.monotonic() - answered_s > _TIMEOUT_S:
                    raise self._unread(min(left))
                yield found
        finally:
            reader.close()

    def _produce(self, producer: Producer, key: str, row: str | None, end: Position) -> None:
        headers = [(HEADER, self._owner), (VERSION, str(end.number))]
        while True:
            try:
                producer.produce(
                    self._feed.topic, row, key, headers=headers, on_delivery=self._on_delivery
                )
                producer.poll(0)
                return
            except BufferError:
                producer.poll(0.1)

    def _on_delivery(self, error: KafkaError | None, _: Any) -> None:
        self._failed = self._failed or error

    def _record(self, producer: Producer, position: Position | None) -> None:
        """Let the transaction commit a position; None while a load is under way."""
        assert self._consumer is not None
        kept = None if position is None else position.model_dump(mode="json")
        text = json.dumps({"partitions": self._partitions, "position": kept})
        offset = TopicPartition(self._feed.topic, 0, 0, metadata=text)
        producer.send_offsets_to_transaction(
            [offset], self._consumer.consumer_group_metadata(), _TIMEOUT_S
        )

    def _committed(self) -> tuple[int, Position | None] | None:
        """Return the number of partitions and the position, as the group has committed them."""
        assert self._consumer is not None
        (found,) = self._consumer.committed([TopicPartition(self._feed.topic, 0)], _TIMEOUT_S)
        if found.error is not None:
            raise KafkaException(found.error)
        if not found.metadata:
            return None
        document = json.loads(found.metadata)
        kept = document["position"]
        position = None if kept is None else Position.model_validate(kept)
        return int(document["partitions"]), position

    @contextmanager
    def _transaction(self) -> Iterator[Producer]:
        assert self._producer is not None
        producer, self._failed = self._producer, None
        producer.begin_transaction()
        try:
            yield producer
            producer.flush()
            if self._failed is not None:
                raise KafkaException(self._failed)
            producer.commit_transaction(_TIMEOUT_S)
        except BaseException:
            # The next producer aborts what this one has begun.
            self.close()
            raise

    def _connect(self) -> None:
        admin = AdminClient(self._settings, logger=QUIET)
        self._make_topic(admin)
        self._consumer = Consumer(
            {**self._settings, "group.id": self._group, "enable.auto.commit": False}, logger=QUIET
        )
        self._producer = Producer(
            {
                **self._settings,
                "transactional.id": self._group,
                "transaction.timeout.ms": _TRANSACTION_MS,
                "compression.type": "lz4",
                "linger.ms": 20,
                # As Java's clients do.
                "partitioner": "murmur2_random",
            },
            logger=QUIET,
        )
        # Ends the transaction of an earlier follower, and fences it.
        self._producer.init_transactions(_TIMEOUT_S)

    def _make_topic(self, admin: AdminClient) -> None:
        """Create the topic, or check that it keeps the last record of each key for ever."""
        topic = self._feed.topic
        if topic not in admin.list_topics(timeout=LOOK_S).topics:
            new = NewTopic(topic, config={"cleanup.policy": "compact"})
            admin.create_topics([new])[topic].result(_TIMEOUT_S)
            while topic not in admin.list_topics(timeout=LOOK_S).topics:
                time.sleep(0.1)
            return
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = admin.describe_configs([resource])[resource].result(_TIMEOUT_S)
        policy = found["cleanup.policy"].value
        if policy != "compact":
            message = (
                f"Topic `{topic}` has `cleanup.policy={policy}`, so it would not keep the last "
                "record of each key. Nothing was delivered."
            )
            hint = (
                "Set `cleanup.policy=compact` of the topic, or name another one in `topic`. "
                f"{AGAIN}"
            )
            raise InputError(message, hint, **self._fields | {"field": "topic"})

    def _has_others(self) -> InputError:
        message = (
            f"Topic `{self._feed.topic}` has records that feed `{self._owner}` has not written, "
            "and the first delivery removes keys that the table lacks: so nothing was delivered or "
            "deleted."
        )
        hint = (
            "Name another topic in `topic`; or, if nobody needs the records of this one, delete "
            f"it. {AGAIN}"
        )
        return InputError(message, hint, **self._fields | {"field": "topic"})

    def _unread(self, partition: int) -> UnavailableError:
        message = (
            f"Partition {partition} of topic `{self._feed.topic}` can't be read to its end: the "
            f"broker has sent nothing for {_TIMEOUT_S:.0f} s. Nothing was delivered, as a load "
            "would delete keys that others may have written."
        )
        hint = "The delivery is repeated; check that the partition has a leader."
        return UnavailableError(message, hint, **self._fields | {"partition": partition})

    def close(self) -> None:
        """Close the clients, which :meth:`held` opens again; an open transaction is aborted."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._producer = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what the broker says as an error of this project."""
        try:
            yield
        except KafkaException as error:
            self.close()
            found = error.args[0] if error.args else None
            code = found.code() if isinstance(found, KafkaError) else None
            why = describe(error)
            if code in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED):
                message = (
                    f"Another follower feeds `{self._feed.name}` now, so the sink refuses what "
                    "this one writes."
                )
                hint = f"Run one follower of a feed at a time. {REPEATED}"
                raise StateError(message, hint, transient=True, **self._fields) from None
            refused = (
                KafkaError._AUTHENTICATION,
                KafkaError.SASL_AUTHENTICATION_FAILED,
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
                KafkaError.GROUP_AUTHORIZATION_FAILED,
                KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                KafkaError.MSG_SIZE_TOO_LARGE,
            )
            if code in refused:
                message = f"The broker refuses feed `{self._feed.name}`: {why}. {REPEATED}"
                hint = (
                    "Let the user write to the topic, to the transactional id and to the group "
                    f"`{self._group}`; or correct what the broker names. {AGAIN}"
                )
                raise InputError(message, hint, **self._fields) from None
            message = f"The broker of feed `{self._feed.name}` failed: {why}. {REPEATED}"
            hint = f"Check that the broker can be reached from here. {AGAIN}"
            raise UnavailableError(message, hint, **self._fields) from None
