"""Look-ups on Kafka topics: partitions, log start and end, offsets for a time, samples.

All look-ups are bulk calls over all partitions (Kafka protocol, ListOffsets).
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from sources.common.login.security import client_settings
from sources.common.positions import Offsets, TopicPartition
from sources.common.topic_log import LogRecord
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError, InputError, UnavailableError
from sources.kafka.client.address import LOCAL, resolve_bootstrap
from sources.kafka.client.consumer import QUIET, scan
from sources.kafka.client.headers import headers_of
from sources.kafka.client.kafka_errors import describe, is_electing, request_failed

# librdkafka compares each answer with all partitions of a request.
_PARTITIONS_PER_REQUEST = 500
TIMEOUT_S = 10.0
"""Seconds to wait for an answer of a broker."""
_ELECTION_S = 0.2
# Shares of the time-out; growing, as a large cluster far away takes its time to answer.
_ATTEMPTS = (0.1, 0.2, 0.8)
# What librdkafka writes around the reason of a lost connection: server, address, time and state.
_CONNECTION_ERROR = re.compile(r"^\S+: (?:Connect to \S+ failed: )?(.+?)(?: \(after .*\))?$")
# How librdkafka reports a failed request for a token, and what libcurl says of an address without
# an answer.
_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token"
_NO_ANSWER = ("Could not resolve", "Failed to connect", "Timeout", "timed out")


def missing_in_words(topics: Sequence[str]) -> str:
    """Return a sentence for people about topics that a source waits for, as they don't exist.

    It follows a colon, and ends with a full stop.

    Args:
        topics: Their names, at least one.
    """
    names = ", ".join(f"`{name}`" for name in topics)
    return (
        f"there is no topic {names} yet, or the user of `security` may not see it. Once it exists, "
        "it is read from its first record."
    )


class KafkaLog:
    """Look-ups on the topics of one source (:class:`sources.common.topic_log.Log`).

    The constructor asks the broker for the topics and their partitions, which are kept in memory;
    every method asks the broker again.

    Args:
        source: Declaration of the source.
        timeout_s: Seconds to wait for an answer, of each request about.

    Attributes:
        servers: ``host:port`` list of the brokers.
        partitions: All partitions of the topics when this was created, sorted.
        missing: Declared topics that did not exist when this was created, with ``missing_topic:
            wait``; a pattern that no topic matched as ``/pattern/``.

    Raises:
        UnavailableError: The broker does not answer, or ``bootstrap_servers`` is ``local`` and no
            local broker is running.
        InputError: ``bootstrap_servers`` or ``security`` make no sense to the client, the broker
            refuses the login, or it has no such topic.
    """

    def __init__(self, source: KafkaSource, timeout_s: float = TIMEOUT_S) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self.servers = resolve_bootstrap(source.bootstrap_servers)
        self._login_error: str | None = None
        self._connection_error: str | None = None
        settings = {**source.properties.of_librdkafka, **client_settings(source.security)}
        self._client = {**settings, "bootstrap.servers": self.servers, "error_cb": self._on_error}
        try:
            self._admin = AdminClient(self._client, logger=QUIET)
        except KafkaException as error:
            message = (
                f"Source `{source.name}`: the client of {self.servers} can't be set up: "
                f"{describe(error)}."
            )
            hint = (
                "Correct `bootstrap_servers`, a list of host:port with commas, `security` and "
                "`properties` of the source; what only Spark's client knows belongs in "
                "`properties.java`."
            )
            raise InputError(message, hint, source=source.name, server=self.servers) from None
        metadata = self._metadata()
        self._cluster = metadata.cluster_id
        topics = self._find(list(metadata.topics))
        self.missing = self._missing(topics)
        self.partitions: list[TopicPartition] = sorted(
            TopicPartition(topic, number)
            for topic in topics
            for number in metadata.topics[topic].partitions
        )

    @property
    def topics(self) -> list[str]:
        """Names of the topics, sorted; those that existed when this object was created.

        Empty if it waits for all of them (``missing_topic: wait``).
        """
        return sorted({partition.topic for partition in self.partitions})

    def identities(self) -> dict[str, str]:
        """Return ``<cluster id>/<topic id>`` of each topic, by topic name.

        They show whether a name still stands for the same records: they differ if a topic was
        deleted and created again, or is the mirror of another cluster.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses, for example without the permission ``Describe``.
        """
        if not self.topics:
            return {}
        asked = self._admin.describe_topics(
            confluent_kafka.TopicCollection(self.topics), request_timeout=self._timeout_s
        )
        try:
            return {
                name: f"{self._cluster}/{answer.result().topic_id}"
                for name, answer in asked.items()
            }
        except KafkaException as error:
            raise self._failure("Topic ids can't be read", error, "Describe") from None

    def log_start(self) -> Offsets:
        """Return the log start offset of each partition: the first one that is not deleted.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        return self._bounds(OffsetSpec.earliest())

    def log_end(self) -> Offsets:
        """Return the log end of each partition: the offset after its last readable record.

        With ``isolation: read_committed``, records from an open transaction on are not readable
        yet.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        return self._bounds(OffsetSpec.latest())

    def high_watermark(self) -> Offsets:
        """Return the offset after the last record of each partition, open transactions included.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        return self._bounds(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def offsets_for_time(self, time_ms: int) -> dict[TopicPartition, int | None]:
        """Return the first offset of each partition whose record timestamp is at or after a time.

        Args:
            time_ms: Unix time in milliseconds.

        Returns:
            Offset by partition, possibly that of a control record; None where no record is as new.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        answers = self._ask(OffsetSpec.for_timestamp(time_ms))
        return {at: answer.offset if answer.offset >= 0 else None for at, answer in answers.items()}

    def newest_ms(self) -> dict[TopicPartition, int | None]:
        """Return the highest record timestamp of each partition, in Unix milliseconds.

        None for a partition without records, and for one whose newest record is in an open
        transaction.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        answers = self._ask(OffsetSpec.max_timestamp())
        return {
            partition: answer.timestamp if answer.timestamp >= 0 else None
            for partition, answer in answers.items()
        }

    def settings(self) -> dict[str, dict[str, str]]:
        """Return the configuration of each topic: settings such as ``retention.ms``, as text.

        By name of the topic, then of the setting; those that only the broker sets are among them.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses, for example without the permission ``DescribeConfigs``.
        """
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in self.topics]
        settings: dict[str, dict[str, str]] = {}
        if not asked:
            return settings
        try:
            answers = self._admin.describe_configs(asked, request_timeout=self._timeout_s)
            for resource, answer in answers.items():
                entries = answer.result()
                settings[resource.name] = {name: entry.value for name, entry in entries.items()}
        except KafkaException as error:
            raise self._failure("Topic settings can't be read", error, "DescribeConfigs") from None
        return settings

    def compacted(self) -> frozenset[str]:
        """Return the names of the topics that Kafka compacts: only a key's last record is kept.

        Empty if it compacts none of them.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses, for example without the permission ``DescribeConfigs``.
        """
        policies = {name: of["cleanup.policy"] for name, of in self.settings().items()}
        return frozenset(name for name, policy in policies.items() if "compact" in policy)

    def read(
        self, start: Mapping[TopicPartition, int], limit: int, end: Mapping[TopicPartition, int]
    ) -> list[LogRecord]:
        """Read up to ``limit`` records of each partition, from a start offset up to an end offset.

        Args:
            start: First offset of each partition.
            limit: Highest number of records of one partition.
            end: Offset after the last one to read, of each partition in ``start``.

        Returns:
            The records, in order within a partition; fewer than ``limit`` where there are no more.

        Raises:
            UnavailableError: The broker stopped answering.
            InputError: An offset in ``start`` is deleted, or this login may not read the records.
        """
        records: list[LogRecord] = []
        counts = dict.fromkeys(start, 0)

        def take(partition: TopicPartition, message: Any) -> bool:
            record = LogRecord(
                partition,
                message.offset(),
                message.timestamp()[1],
                message.value(),
                message.key(),
                headers_of(message),
            )
            records.append(record)
            counts[partition] += 1
            return counts[partition] < limit

        self.scan(start, end, take)
        return records

    def first_within(
        self, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
    ) -> dict[TopicPartition, int]:
        """Return the first record's offset of each partition that lies in one of several ranges.

        Used to find out whether a range of offsets that history lacks contains a record at all.
        Reads the topic from the start of the first range until a record is found, or the last range
        ends.

        Args:
            ranges: For each partition, ascending ranges of first and exclusive end offset; at least
                one.

        Returns:
            Offset by partition; partitions without such a record are left out.

        Raises:
            UnavailableError: The broker stopped answering.
            InputError: A first offset is deleted, or this login may not read the records.
        """
        offsets: Offsets = {}
        firsts = {partition: [first for first, _ in of] for partition, of in ranges.items()}

        def look(partition: TopicPartition, message: Any) -> bool:
            place = bisect_right(firsts[partition], message.offset()) - 1
            if message.offset() < ranges[partition][place][1]:
                offsets[partition] = message.offset()
            return partition not in offsets

        ends = {partition: of[-1][1] for partition, of in ranges.items()}
        self.scan({partition: of[0] for partition, of in firsts.items()}, ends, look)
        return offsets

    def scan(
        self,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        take: Callable[[TopicPartition, Any], bool],
    ) -> None:
        """Read a range of offsets of each partition, and pass each record to a function.

        Args:
            start: First offset of each partition.
            end: Offset after the last one to read, of each partition in ``start``.
            take: Called with partition and message (``confluent_kafka.Message``), in order within a
                partition; if it returns False, no more of the partition is read.

        Raises:
            UnavailableError: The broker stopped answering.
            InputError: An offset in ``start`` is deleted, or the records may not be read.
        """
        scan(self._source, start, end, take)

    def _find(self, known: list[str]) -> list[str]:
        if self._source.topic_pattern is not None:
            pattern = re.compile(self._source.topic_pattern)
            # Kafka's own topics (`__consumer_offsets`) never belong to a pattern.
            matching = [name for name in known if pattern.fullmatch(name) and name[:2] != "__"]
            if not matching and not self._source.waits_for_topic:
                message = (
                    f"Source `{self._source.name}`: no topic on {self.servers} matches "
                    f"`topic_pattern: {self._source.topic_pattern}`."
                )
                hint = (
                    "Create such a topic, or correct `topic_pattern`, which has to match the whole "
                    "name; names that begin with `__` never match. Kafka hides topics without the "
                    "permission `Describe`."
                )
                raise InputError(message, hint, source=self._source.name, server=self.servers)
            return matching
        for topic in self._source.topics:
            if topic not in known and not self._source.waits_for_topic:
                message = f"There is no topic `{topic}` on {self.servers}."
                name = self._source.name
                is_local = self._source.bootstrap_servers == LOCAL
                how = f" (`hybrid broker --topic {topic}`)" if is_local else ""
                hint = (
                    f"Create the topic{how}, or correct `topic` of source `{name}`. If it is made "
                    "with its first record, as by Debezium, declare `missing_topic` for the "
                    "source. Kafka hides a topic without the permission `Describe`."
                )
                raise InputError(message, hint, source=name, topic=topic, server=self.servers)
        return [topic for topic in self._source.topics if topic in known]

    def _missing(self, topics: list[str]) -> list[str]:
        if not self._source.topics and not topics:
            return [self._source.subscription]
        return sorted({*self._source.topics} - {*topics})

    def _bounds(self, spec: Any, isolation: IsolationLevel | None = None) -> Offsets:
        """Return the first or last offsets; a partition for which there is none has not answered.

        Kafka's -1 for "no such offset" belongs to look-ups by time. As a bound of the log it would
        be taken for records that are gone, or for a log without any.
        """
        answers = self._ask(spec, isolation, is_bound=True)
        return {at: answer.offset for at, answer in answers.items()}

    def _ask(
        self, spec: Any, isolation: IsolationLevel | None = None, *, is_bound: bool = False
    ) -> dict[TopicPartition, Any]:
        """Return the leaders' answers, once each has one: an offset, if a bound is asked for."""
        level = isolation or IsolationLevel[self._source.isolation.upper()]
        deadline = time.monotonic() + self._timeout_s
        while True:
            is_late = time.monotonic() > deadline
            try:
                found = self._ask_leaders(spec, level)
            except KafkaException as error:
                # Of a topic that was just created, or while brokers are restarted.
                if is_late or not is_electing(error.args[0]):
                    raise self._failure("Offsets can't be read", error, "Describe") from None
            else:
                at = next((at for at in found if is_bound and found[at].offset < 0), None)
                if at is None:
                    return found
                if is_late:
                    message = (
                        f"Source `{self._source.name}`: the Kafka broker {self.servers} answers "
                        f"{found[at].offset} instead of an offset of {at}, for "
                        f"{self._timeout_s:g} s by now. Nothing was decided."
                    )
                    hint = "Check the broker that leads this partition, then repeat what failed."
                    raise UnavailableError(message, hint, source=self._source.name)
            time.sleep(_ELECTION_S)

    def _ask_leaders(self, spec: Any, level: IsolationLevel) -> dict[TopicPartition, Any]:
        asked = [confluent_kafka.TopicPartition(*each) for each in self.partitions]
        answers: dict[Any, Any] = {}
        for first in range(0, len(asked), _PARTITIONS_PER_REQUEST):
            some = dict.fromkeys(asked[first : first + _PARTITIONS_PER_REQUEST], spec)
            answers |= self._admin.list_offsets(
                some, isolation_level=level, request_timeout=self._timeout_s
            )
        return {
            TopicPartition(part.topic, part.partition): answer.result()
            for part, answer in answers.items()
        }

    def _metadata(self) -> Any:
        """Return the metadata of all topics.

        Asked for in several short attempts, as librdkafka reports what is wrong between them only.
        """
        failure: KafkaException | None = None
        for share in _ATTEMPTS:
            try:
                return self._admin.list_topics(timeout=share * self._timeout_s)
            except KafkaException as error:
                failure = error
                self._admin.poll(0)
                self._require_login()
        reason = self._connection_error or ("no answer" if failure is None else describe(failure))
        message = f"The Kafka broker {self.servers} can't be reached: {reason}."
        hint = (
            "Start the broker, make it reachable from this machine, or correct "
            f"`bootstrap_servers` of source `{self._source.name}`."
        )
        raise UnavailableError(message, hint, source=self._source.name, server=self.servers)

    def _require_login(self) -> None:
        if self._login_error is not None:
            message = f"The Kafka broker {self.servers} refuses the login: {self._login_error}."
            hint = (
                f"Correct `security` of source `{self._source.name}`: protocol, user and password, "
                "or certificates, as the broker's listener requires them."
            )
            raise InputError(message, hint, source=self._source.name, server=self.servers) from None

    def _failure(self, what: str, error: KafkaException, permission: str) -> HybridError:
        return request_failed(self._source, what, error, permission)

    def _on_error(self, error: KafkaError) -> None:
        text = str(error.str())
        if text.startswith(_NO_TOKEN) and any(words in text for words in _NO_ANSWER):
            # Of the identity provider, which may answer later.
            self._connection_error = text.rstrip(".")
            return
        # TLS refusals arrive as lost connections, distinguished by their text only.
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or any(
            words in text for words in ("alert bad certificate", "PLAINTEXT broker listener")
        ):
            self._login_error = text.rstrip(".")
        elif error.code() in (KafkaError._TRANSPORT, KafkaError._RESOLVE):
            found = _CONNECTION_ERROR.match(text)
            self._connection_error = text if found is None else found[1]
