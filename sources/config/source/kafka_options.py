"""Options of a Kafka source: where it starts and ends, how partitions advance, client settings."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from sources.common.durations import Duration
from sources.common.fields import Declared, Instant, Reference


def _by_topic(value: Any) -> Any:
    """Accept the offsets of a single topic without its name."""
    if isinstance(value, dict) and not any(isinstance(part, dict) for part in value.values()):
        return {"": value}
    return value


# Names of Kafka's settings that hold a secret, or that name the file or class that a login is by.
_SECRET = re.compile(
    r"password|secret|jaas|token|credential|assertion|callback|\.key$|key\.(pem|location)|keystore"
)
_FIXED = "the project sets it, as its look-ups and runs depend on it. Remove it"
_IN_SECURITY = "write `security` of the source instead"
_BY_FIELD = {
    "bootstrap.servers": "write `bootstrap_servers` of the source instead",
    "isolation.level": "write `isolation` of the source instead",
    "fetch.max.wait.ms": "write `fetch_max_wait` of the source instead",
    **dict.fromkeys(("security.protocol", "sasl.mechanism", "sasl.mechanisms"), _IN_SECURITY),
    **dict.fromkeys(("sasl.username", "ssl.ca.location", "ssl.ca.pem"), _IN_SECURITY),
    **dict.fromkeys(("ssl.certificate.location", "ssl.truststore.location"), _IN_SECURITY),
    **dict.fromkeys(
        (
            *("auto.offset.reset", "enable.auto.commit", "enable.partition.eof", "group.id"),
            *("key.deserializer", "max.poll.records", "value.deserializer"),
        ),
        _FIXED,
    ),
}


def _setting(value: Any) -> Any:
    """Return a setting as Kafka's clients have it: a text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Setting = Annotated[str, BeforeValidator(_setting)]
"""Value of a setting of Kafka's clients: a text, a number, or true and false."""


class StartAtOffsets(Declared):
    """Fixed start: the first offset to read, for every partition.

    Attributes:
        offsets: ``{partition: offset}``, or ``{topic: {partition: offset}}`` for several topics.

    """

    offsets: Annotated[dict[str, dict[int, int]], BeforeValidator(_by_topic)] = Field(min_length=1)


class StartAtTimestamp(Declared):
    """Fixed start: the first record whose timestamp is at or after a time.

    Attributes:
        timestamp: The time, such as ``2024-01-01T00:00:00Z``.
    """

    timestamp: Instant


class StartAgo(Declared):
    """Fixed start: "now minus X", where now is the time of the hand-over (FLIP-150).

    Attributes:
        ago: How long before the hand-over, such as ``2 h``.
    """

    ago: Duration


class StartByFactory(Declared):
    """Dynamic start: a function that the user wrote.

    Attributes:
        factory: ``module:function``. It gets a :class:`sources.hybrid.SourceSwitchContext` and
            returns a datetime with a time zone, or offsets as ``start: {offsets: …}`` takes them.

    """

    factory: Reference


class EndAtOffsets(StartAtOffsets):
    """Fixed end: the first offset that is not read, for every partition."""


class EndAtTimestamp(StartAtTimestamp):
    """Fixed end: each partition ends before its first record whose timestamp is at or after a time.

    One without such a record ends at its log end. The time may not lie in the future.
    """


class NewTopic(Declared):
    """Topic to create.

    Attributes:
        partitions: Number of partitions; by default the broker's (``num.partitions``).
        replication_factor: Number of replicas; by default the broker's
            (``default.replication.factor``).
        settings: Settings of the topic, such as ``{retention.ms: -1}``; all others are the
            broker's.
    """

    partitions: PositiveInt | None = None
    replication_factor: PositiveInt | None = None
    settings: dict[str, Setting] = Field(default_factory=dict)


class CreateTopic(Declared):
    """A missing topic is created.

    Attributes:
        create: The topic; ``{}`` for the broker's defaults.
    """

    create: NewTopic


class KafkaProperties(Declared):
    """Further settings of the Kafka clients, by the names that these have; never secrets.

    Attributes:
        both: Settings of both clients, such as ``client.id``.
        librdkafka: Settings of the client that looks up offsets and reads samples.
        java: Settings of Spark's client. It ignores names that it does not know.
    """

    both: dict[str, Setting] = Field(default_factory=dict)
    librdkafka: dict[str, Setting] = Field(default_factory=dict)
    java: dict[str, Setting] = Field(default_factory=dict)

    @property
    def of_librdkafka(self) -> dict[str, str]:
        """All settings of librdkafka, by name; its own go before those of both clients."""
        return {**self.both, **self.librdkafka}

    @property
    def of_java(self) -> dict[str, str]:
        """All settings of Spark's client, by name; its own go before those of both clients."""
        return {**self.both, **self.java}

    @model_validator(mode="after")
    def _leaves_the_rest_to_fields(self) -> KafkaProperties:
        for name in [*self.of_librdkafka, *self.of_java]:
            if _SECRET.search(name):
                message = (
                    f"`properties` has `{name}`, which carries a secret or a login. Declare it in "
                    "`security`, whose secrets come from the environment."
                )
                raise ValueError(message)
            if (field := _BY_FIELD.get(name)) is not None:
                message = f"`properties` has `{name}`, which is not free: {field}."
                raise ValueError(message)
        return self


class Align(Declared):
    """Partitions of a source advance together in record time (FLIP-182).

    It holds if the records of each partition are in order of time; those that are dated in the
    future don't count. A live run whose transform has no watermark is not held together.

    Attributes:
        drift: Highest difference between two partitions at the end of a micro-batch. A watermark
            delay that is shorter can drop rows, and is refused for a source without ``until``.
        idle: A partition of which all is read holds the others until nothing was appended to it
            for so long, by the clock; then it is left out until the next record. Only without
            ``until``.

    """

    drift: Duration = Field(ge=timedelta(milliseconds=1))
    idle: Duration = timedelta(minutes=1)
