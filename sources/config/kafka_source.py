"""Declaration of a Kafka source: topics, to be followed for ever or read to an end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from sources.common.fields import Declared, Duration, Instant, Name, Reference
from sources.common.schema import names_and_types, parse_schema
from sources.common.security import Security
from sources.common.select import Selection
from sources.config.bad_records import BadRecords
from sources.config.rate_limit import RateLimit, require_meaning
from sources.decoding.value_format import ValueFormat
from sources.hybrid import Boundedness


def _by_topic(value: Any) -> Any:
    """Offsets of a single topic may be written without its name."""
    if isinstance(value, dict) and not any(isinstance(part, dict) for part in value.values()):
        return {"": value}
    return value


class StartAtOffsets(Declared):
    """A fixed hand-over: the first offset to read, for every partition.

    Attributes:
        offsets: ``{partition: offset}``, or ``{topic: {partition: offset}}`` for several topics.

    """

    offsets: Annotated[dict[str, dict[int, int]], BeforeValidator(_by_topic)] = Field(min_length=1)


class StartAtTimestamp(Declared):
    """A fixed hand-over: the first record whose timestamp is at or after this time.

    Attributes:
        timestamp: The time.
    """

    timestamp: Instant


class StartAgo(Declared):
    """A fixed hand-over: "now minus X", where now is the time of the hand-over (FLIP-150).

    Attributes:
        ago: The X.
    """

    ago: Duration


class StartByFactory(Declared):
    """A dynamic hand-over that the user wrote.

    Attributes:
        factory: A function from :class:`sources.hybrid.SourceSwitchContext` to a time with a
            zone, or to offsets as ``start: {offsets: …}`` takes them.

    """

    factory: Reference


class EndAtOffsets(StartAtOffsets):
    """A fixed end: the first offset that is not read, for every partition."""


class EndAtTimestamp(StartAtTimestamp):
    """A fixed end: each partition ends before its first record at or after this time."""


class Align(Declared):
    """Partitions of a bounded source advance together in record time (FLIP-182).

    Attributes:
        drift: At the end of a micro-batch no partition is ahead of another one by more. A
            watermark delay that is shorter can drop rows.

    """

    drift: Duration = Field(ge=timedelta(milliseconds=1))


class KafkaSource(ValueFormat, BadRecords):
    """A source of Kafka topics: unbounded, or bounded where ``until`` is declared.

    Attributes:
        type: Always ``kafka``.
        name: Of the source, and of its asset.
        topic: Its name, or several.
        topic_pattern: Instead of ``topic``: a regular expression that whole names match.
        bootstrap_servers: ``host:port`` list, or ``local`` for the broker of this machine.
        security: How to log in and whom to trust; plain text otherwise.
        isolation: ``read_committed`` leaves out records of aborted transactions.
        start: ``previous`` (from the end of the source before), ``earliest``, ``latest``, or fixed.
        until: Where it ends: ``latest`` (the log ends when its turn comes), or fixed.
        align: Partitions are read in step, by record time; needs ``until``.
        on_gap: What to do if the log no longer reaches back to where history ends: ``fail``,
            ``extend`` (read files that arrived meanwhile, then try again), or ``accept`` (go on;
            the ledger records the gap).
        headroom: A bounded run fails while the first record to be read afterwards has still this
            long until Kafka may delete it.
        fetch_max_wait: How long the broker may hold a fetch that it can't answer at once. Spark's
            consumer asks ahead, so each task may wait for it once. Brokers before 3.8 give up
            reading tiered storage after it: 500 ms or more for those.
        max_offsets_per_batch: Offsets that one micro-batch takes in at most, all partitions.
        rate: ``offsets`` by second, at most, all partitions together.
        trigger_interval: Time between the starts of two micro-batches.

    """

    type: Literal["kafka"]
    name: Name
    topic: str | list[str] | None = None
    topic_pattern: str | None = None
    bootstrap_servers: str = "local"
    security: Security | None = None
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    start: (
        Literal["previous", "earliest", "latest"]
        | StartAtOffsets
        | StartAtTimestamp
        | StartAgo
        | StartByFactory
    ) = "previous"
    until: Literal["latest"] | EndAtOffsets | EndAtTimestamp | None = None
    align: Align | None = None
    on_gap: Literal["fail", "extend", "accept"] = "fail"
    headroom: Duration = timedelta(minutes=10)
    fetch_max_wait: Duration = timedelta(milliseconds=10)
    max_offsets_per_batch: PositiveInt = 4_000_000
    rate: RateLimit = RateLimit()
    trigger_interval: Duration = timedelta(seconds=1)

    def located(self, locate: Callable[[str], str]) -> KafkaSource:
        """The same with its files' paths made absolute.

        Args:
            locate: Makes a path of the declaration absolute.
        """
        changes = {**self.values_located(locate), **self.quarantine_located(locate)}
        if self.security is not None:
            changes["security"] = self.security.located(locate)
        return self.model_copy(update=changes)

    @property
    def boundedness(self) -> Boundedness:
        """A topic has no end but the one that is declared (Flink: ``KafkaSource.setBounded``)."""
        is_bounded = self.until is not None
        return Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def topics(self) -> list[str]:
        """The topics named; empty where a pattern finds them."""
        if self.topic is None:
            return []
        return [self.topic] if isinstance(self.topic, str) else self.topic

    @property
    def subscription(self) -> str:
        """What is read, in words."""
        return ", ".join(self.topics) or f"/{self.topic_pattern}/"

    @property
    def column_names(self) -> list[str] | None:
        """The columns that come out, where the declaration tells them."""
        return list(self.select or self.declared_columns or []) or None

    @property
    def selection(self) -> Selection:
        """What becomes of the columns of a row."""
        return Selection(self.name, self.select)

    def selected(self, read: Mapping[str, str]) -> dict[str, str]:
        """The columns that come out of ``select``, by name.

        Args:
            read: All columns of a row.

        Raises:
            InputError: An expression does not fit them, or does not tell its type.
        """
        if not self.select:
            return dict(read)
        return names_and_types(self.selection.columns(parse_schema(read)))

    def check_rate(self, limit: RateLimit) -> None:
        """Refuse a limit that means nothing for a topic."""
        require_meaning(self.name, "a topic", limit, ["offsets"])

    @model_validator(mode="after")
    def _selects_what_is_declared(self) -> KafkaSource:
        if not self.select:
            return self
        if self.declared_columns is None:
            message = (
                "`select` needs a `schema`: the columns of the source before are those that come "
                "out of it"
            )
            raise ValueError(message)
        self.selected(self.declared_columns)
        return self

    @model_validator(mode="after")
    def _names_topics_once(self) -> KafkaSource:
        self.check_rate(self.rate)
        if bool(self.topics) == bool(self.topic_pattern):
            message = "name either `topic` or `topic_pattern`"
            raise ValueError(message)
        if self.topic_pattern is not None:
            try:
                re.compile(self.topic_pattern)
            except re.error as error:
                message = f"`topic_pattern` is no regular expression: {error}"
                raise ValueError(message) from None
        if len(set(self.topics)) < len(self.topics):
            message = f"`topic` names one twice: {', '.join(self.topics)}"
            raise ValueError(message)
        for field, where in (("start", self.start), ("until", self.until)):
            unnamed = isinstance(where, StartAtOffsets) and "" in where.offsets
            if unnamed and len(self.topics) != 1:
                message = (
                    f"with several topics, `{field}.offsets` is {{topic: {{partition: offset}}}}"
                )
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _aligns_what_ends(self) -> KafkaSource:
        if self.align is not None and self.until is None:
            message = (
                "`align` needs `until`: only ranges can be cut by time. Put a source of the same "
                "topic before this one, with `until: latest`"
            )
            raise ValueError(message)
        return self
