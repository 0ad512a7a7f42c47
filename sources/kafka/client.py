"""What Kafka topics say of themselves: partitions, log start and end, offsets for a time, samples.

All look-ups are bulk calls over all partitions (Kafka protocol, ListOffsets).
"""

from __future__ import annotations

import logging
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from sources.common.positions import Offsets, TopicPartition
from sources.common.security import client_settings
from sources.common.topic_log import LogRecord
from sources.config.kafka_source import KafkaSource
from sources.errors import InputError
from sources.kafka.address import resolve_bootstrap

# librdkafka looks each answer up among all that were asked for.
_ASKED_AT_ONCE = 500
TIMEOUT_S = 10.0
# Longer and longer: a large cluster far away takes its time to answer.
_TURNS_S = (1.0, 2.0, 8.0)
# Who asks for a few records waits for no more than that.
_TURN_S = 0.05
# A broker that sends nothing for so long is given up.
SILENCE_S = 30.0

# librdkafka would print each refused connection to stderr.
QUIET = logging.getLogger("hybrid.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class KafkaLog:
    """Look-ups on the topics of one source (:class:`sources.common.topic_log.Log`).

    Args:
        source: Its declaration.

    Raises:
        InputError: The broker can't be reached or refuses the login, or has no such topic.
    """

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self.servers = resolve_bootstrap(source.bootstrap_servers)
        self._refusal: str | None = None
        settings = client_settings(source.security)
        self._client = {**settings, "bootstrap.servers": self.servers, "error_cb": self._on_error}
        try:
            self._admin = AdminClient(self._client, logger=QUIET)
            metadata = self._metadata()
        except KafkaException as error:
            message = f"The Kafka broker {self.servers} can't be reached: {_text(error)}."
            raise InputError(message, "Start it, or correct `bootstrap_servers`.") from None
        self._cluster = metadata.cluster_id
        topics = self._find(list(metadata.topics))
        self.partitions: list[TopicPartition] = sorted(
            TopicPartition(topic, number)
            for topic in topics
            for number in metadata.topics[topic].partitions
        )

    @property
    def topics(self) -> list[str]:
        """Names of the topics."""
        return sorted({at.topic for at in self.partitions})

    def identities(self) -> dict[str, str]:
        """Which topic of its name each one is: a topic made anew, or a mirror's, is another one."""
        asked = self._admin.describe_topics(confluent_kafka.TopicCollection(self.topics))
        try:
            return {
                name: f"{self._cluster}/{answer.result(TIMEOUT_S).topic_id}"
                for name, answer in asked.items()
            }
        except KafkaException as error:
            message = f"`{self._source.subscription}` does not tell its ids: {_text(error)}."
            raise InputError(message, "Check the permissions (Describe).") from None

    def log_start(self) -> Offsets:
        """Log start offset: the first that is still there."""
        return self._offsets(OffsetSpec.earliest())

    def log_end(self) -> Offsets:
        """Offset after the last record that a reader of the declared isolation gets to see."""
        return self._offsets(OffsetSpec.latest())

    def high_watermark(self) -> Offsets:
        """Offset after the last record, open transactions included."""
        return self._offsets(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        """First offset whose record timestamp is at or after a time; None where there is none."""
        found = self._offsets(OffsetSpec.for_timestamp(time_ms))
        return {at: offset if offset >= 0 else None for at, offset in found.items()}

    def newest_ms(self) -> dict[TopicPartition, int | None]:
        """Highest record timestamp; None where there are no records."""
        answers = self._ask(OffsetSpec.max_timestamp())
        return {
            at: answer.timestamp if answer.timestamp >= 0 else None
            for at, answer in answers.items()
        }

    def settings(self) -> dict[str, dict[str, str]]:
        """Configuration of each topic (``message.timestamp.type``, ``retention.ms`` …)."""
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in self.topics]
        found = {}
        try:
            for resource, answer in self._admin.describe_configs(asked).items():
                entries = answer.result(TIMEOUT_S)
                found[resource.name] = {name: entry.value for name, entry in entries.items()}
        except KafkaException as error:
            message = f"`{self._source.subscription}` does not tell its settings: {_text(error)}."
            raise InputError(message, "Check the permissions (DescribeConfigs).") from None
        return found

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        """The first ``limit`` records of each partition from ``start`` on and below ``end``."""
        records: list[LogRecord] = []
        taken = dict.fromkeys(start, 0)

        def take(at: TopicPartition, message: Any) -> bool:
            record = LogRecord(
                at,
                message.offset(),
                message.timestamp()[1],
                message.value(),
                message.key(),
                message.headers(),
            )
            records.append(record)
            taken[at] += 1
            return taken[at] < limit

        self.scan(start, end, take)
        return records

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        """Offset of the first record that lies in one of the half-open ranges, by partition.

        Reads the log from the first range to the last one.
        """
        found: Offsets = {}
        firsts = {at: [first for first, _ in parts] for at, parts in ranges.items()}

        def look(at: TopicPartition, message: Any) -> bool:
            place = bisect_right(firsts[at], message.offset()) - 1
            if message.offset() < ranges[at][place][1]:
                found[at] = message.offset()
            return at not in found

        ends = {at: parts[-1][1] for at, parts in ranges.items()}
        self.scan({at: parts[0] for at, parts in firsts.items()}, ends, look)
        return found

    def scan(
        self,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        take: Callable[[TopicPartition, Any], bool],
    ) -> None:
        """Hand the records of each partition from ``start`` on and below ``end`` to a function.

        Finished by position, never by count: control records and compaction take up offsets.

        Args:
            start: First offset.
            end: Offset after the last one.
            take: Gets partition and message (``confluent_kafka.Message``); False ends this
                partition.

        Raises:
            InputError: The broker stopped answering, or no longer has the records.
        """
        wanted = {at for at in start if start[at] < end[at]}
        if not wanted:
            return
        settings = {**consumer_settings(self._source), "error_cb": self._on_error}
        consumer = Consumer(settings, logger=QUIET)
        try:
            consumer.assign([confluent_kafka.TopicPartition(*at, start[at]) for at in wanted])
            heard = time.monotonic()
            while wanted:
                messages = consumer.consume(10_000, timeout=_TURN_S)
                if messages:
                    heard = time.monotonic()
                elif time.monotonic() - heard > SILENCE_S:
                    message = f"`{self._source.subscription}`: no answer for {SILENCE_S:.0f} s."
                    raise InputError(message, "Check the broker.")
                done = [at for message in messages if (at := _step(message, wanted, end, take))]
                if done and wanted:
                    gone = [confluent_kafka.TopicPartition(*at) for at in done]
                    consumer.incremental_unassign(gone)
        except KafkaException as error:
            message = f"`{self._source.subscription}` can't be read: {_text(error)}."
            raise InputError(message, "Check the broker.") from None
        finally:
            consumer.close()

    def _find(self, known: list[str]) -> list[str]:
        if self._source.topic_pattern is not None:
            pattern = re.compile(self._source.topic_pattern)
            # Kafka's own topics (`__consumer_offsets`) never belong to a pattern.
            found = [name for name in known if pattern.fullmatch(name) and name[:2] != "__"]
            if not found:
                message = f"No topic on {self.servers} matches `{self._source.topic_pattern}`."
                raise InputError(message, "Create one, or correct `topic_pattern`.")
            return found
        for topic in self._source.topics:
            if topic not in known:
                message = f"There is no topic `{topic}` on {self.servers}."
                raise InputError(message, "Create it, or correct `topic`.")
        return self._source.topics

    def _offsets(self, spec: Any, isolation: IsolationLevel | None = None) -> Offsets:
        return {at: answer.offset for at, answer in self._ask(spec, isolation).items()}

    def _ask(self, spec: Any, isolation: IsolationLevel | None = None) -> dict[TopicPartition, Any]:
        asked = [confluent_kafka.TopicPartition(*at) for at in self.partitions]
        level = isolation or IsolationLevel[self._source.isolation.upper()]
        answers: dict[Any, Any] = {}
        for first in range(0, len(asked), _ASKED_AT_ONCE):
            some = dict.fromkeys(asked[first : first + _ASKED_AT_ONCE], spec)
            answers |= self._admin.list_offsets(
                some, isolation_level=level, request_timeout=TIMEOUT_S
            )
        try:
            return {
                TopicPartition(part.topic, part.partition): answer.result()
                for part, answer in answers.items()
            }
        except KafkaException as error:
            message = f"`{self._source.subscription}` does not tell its offsets: {_text(error)}."
            raise InputError(message, "Check the broker and the permissions.") from None

    def _metadata(self) -> Any:
        """All topics; asked for in short turns, as only between them librdkafka says what is wrong.

        Raises:
            InputError: The broker refuses the login.
            KafkaException: It can't be reached.
        """
        for turn, seconds in enumerate(_TURNS_S, start=1):
            try:
                return self._admin.list_topics(timeout=seconds)
            except KafkaException:
                self._admin.poll(0)
                if self._refusal is not None:
                    message = f"The Kafka broker {self.servers} refuses the login: {self._refusal}."
                    raise InputError(message, "Correct `security`.") from None
                if turn == len(_TURNS_S):
                    raise
        raise AssertionError

    def _on_error(self, error: KafkaError) -> None:
        text = str(error.str())
        # TLS refusals arrive as lost connections, told by their text only.
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or any(
            words in text for words in ("alert bad certificate", "PLAINTEXT broker listener")
        ):
            self._refusal = text.rstrip(".")


def consumer_settings(source: KafkaSource) -> dict[str, Any]:
    """Settings of a consumer that reads ranges of a source, secrets in the clear."""
    return {
        **client_settings(source.security),
        "bootstrap.servers": resolve_bootstrap(source.bootstrap_servers),
        "group.id": "hybrid-look-up",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": source.isolation,
        # Many partitions share few records: don't wait for more of them.
        "fetch.wait.max.ms": 50,
        # librdkafka rests for a second once it has enough; until then the next is used up.
        "fetch.queue.backoff.ms": 10,
    }


def _step(
    message: Any,
    wanted: set[TopicPartition],
    end: Mapping[TopicPartition, int],
    take: Callable[[TopicPartition, Any], bool],
) -> TopicPartition | None:
    """Take in a message; returns the partition if it is done with it."""
    at = TopicPartition(message.topic(), message.partition())
    if at not in wanted:
        return None
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    offset = message.offset()
    goes_on = True
    if error is None and offset < end[at]:
        goes_on = take(at, message)
    # At the end of a partition the offset is that of the record that will come next.
    if goes_on and offset + (error is None) < end[at]:
        return None
    wanted.discard(at)
    return at


def _text(error: KafkaException) -> str:
    return str(error.args[0].str()).rstrip(".")
