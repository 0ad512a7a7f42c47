"""Declaration of a Kafka source: topics that are followed without end, or read up to an end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Literal

from pydantic import PositiveInt, model_validator

from sources.common.durations import Duration
from sources.common.fields import AssetName, Name
from sources.common.login.security import Security
from sources.common.schema import names_and_types, parse_schema
from sources.common.sql.select import Selection
from sources.config.source.bad_record_policy import BadRecords
from sources.config.source.declared_source import Chain, DeclaredSource
from sources.config.source.kafka_options import (
    Align,
    CreateTopic,
    EndAtOffsets,
    EndAtTimestamp,
    KafkaProperties,
    StartAgo,
    StartAtOffsets,
    StartAtTimestamp,
    StartByFactory,
)
from sources.config.source.rate_limit import RateLimit, require_meaning
from sources.decoding.record_rows import RecordRows
from sources.hybrid import Boundedness


class KafkaSource(RecordRows, BadRecords):
    """Kafka topics: unbounded, or bounded where ``until`` is declared.

    Attributes:
        type: Always ``kafka``.
        name: Name of the source and of its asset: lower case letters, digits and underscores.
        asset: Key of the Dagster asset that this data is, such as ``raw/orders``; by default a key
            made of its address.
        topic: Name of the topic, or a list of names.
        topic_pattern: Instead of ``topic``: regular expression that whole topic names match.
        missing_topic: What happens if a topic does not exist yet, as Debezium creates one with the
            first change of its table: ``refuse``; ``wait`` starts without it, and reads it from its
            first record once it exists; ``{create: {partitions: 1}}`` creates it with the snapshot
            or the plan.
        bootstrap_servers: Comma-separated ``host:port`` list; ``local`` is the broker that
            ``hybrid broker`` runs on this machine.
        security: Login and trust; unencrypted and anonymous by default.
        properties: Further settings of the Kafka clients, such as
            ``{both: {client.id: backfill}}``; those that carry secrets are refused.
        isolation: ``read_committed`` skips records of aborted and open transactions.
        start: Where reading starts: ``previous`` (at the end of the source before), ``earliest``,
            ``latest``, or a fixed position or function.
        until: Where reading ends: ``latest`` (the log end at the time of the hand-over to this
            source), or a fixed position. Without it the source is unbounded.
        align: Read partitions in step, by record timestamp. Without ``until`` only if the transform
            sets a watermark.
        on_gap: What happens if the log no longer reaches back to where history ends: ``fail``;
            ``extend`` reads files that arrived in the meantime and tries again; ``accept``
            continues without the missing records and records the gap in the ledger.
        headroom: A bounded run that comes before this source fails once Kafka may delete the first
            record needed here within this time.
        fetch_max_wait: How long the broker may wait before it answers a fetch for which it has no
            records (``fetch.max.wait.ms``). Spark's consumer prefetches, so every task may wait
            for it once. Brokers before 3.8 give up reading tiered storage after this time: use
            500 ms or more with those.
        max_offsets_per_batch: Highest number of offsets in one micro-batch, all partitions
            together.
        rate: Rate limit per second: ``offsets``, all partitions together.
        trigger_interval: Time between the starts of two micro-batches.

    """

    type: Literal["kafka"]
    name: Name
    asset: AssetName | None = None
    topic: str | list[str] | None = None
    topic_pattern: str | None = None
    missing_topic: Literal["refuse", "wait"] | CreateTopic = "refuse"
    bootstrap_servers: str = "local"
    security: Security | None = None
    properties: KafkaProperties = KafkaProperties()
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

    @property
    def boundedness(self) -> Boundedness:
        """``BOUNDED`` if ``until`` is declared, else ``CONTINUOUS_UNBOUNDED``."""
        is_bounded = self.until is not None
        return Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def topics(self) -> list[str]:
        """Declared topic names; empty if they are matched by a pattern."""
        if self.topic is None:
            return []
        return [self.topic] if isinstance(self.topic, str) else self.topic

    @property
    def waits_for_topic(self) -> bool:
        """Whether the source starts without a topic that does not exist yet."""
        return self.missing_topic == "wait"

    @property
    def subscription(self) -> str:
        """Topic names joined by commas, or ``/pattern/``; for messages."""
        return ", ".join(self.topics) or f"/{self.topic_pattern}/"

    @property
    def patterns(self) -> list[str]:
        """Empty: a topic reads no files."""
        return []

    @property
    def snapshot(self) -> None:
        """None: a topic takes no snapshot of a database."""
        return

    @property
    def column_names(self) -> list[str] | None:
        """Declared names of the output columns; None if the source before determines them."""
        return list(self.select or self.declared_columns or []) or None

    @property
    def selection(self) -> Selection:
        """Expressions of ``select`` and their types; made at each access, without reading data."""
        return Selection(self.name, self.select)

    @property
    def topic_columns(self) -> list[str]:
        """Columns that ``include`` fills with the name of the topic; usually one or none."""
        return [name for name, part in self.record_columns.items() if part == "topic"]

    @property
    def functions(self) -> dict[str, str]:
        """The function that decides the start, as ``start.factory`` to its name; empty without."""
        if isinstance(self.start, StartByFactory):
            return {"start.factory": self.start.factory}
        return {}

    @property
    def has_hand_over(self) -> bool:
        """True: the hand-over decides the offset at which reading each partition starts."""
        return True

    def located(
        self, locate: Callable[[str], str], _absolute_url: Callable[[str], str]
    ) -> KafkaSource:
        """Return a copy with the paths of its schema, quarantine and TLS files made absolute.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        changes = {"value": self.value.located(locate), **self.quarantine_located(locate)}
        if self.security is not None:
            changes["security"] = self.security.located(locate)
        return self.model_copy(update=changes)

    def contract(self) -> dict[str, object]:
        """Return the declared values that may not change while a checkpoint is in use.

        Returns:
            Value by name of the field or group of fields, such as ``sources.NAME.end``.
        """
        place = f"sources.{self.name}"
        where = [self.topics, self.topic_pattern, self.isolation]
        # Of a plan it is a part; a topic that is followed may be aligned from any time on.
        cut = self if self.until is not None else self.model_copy(update={"align": None})
        contract: dict[str, object] = {
            place: [self.type, self.format, where, self.columns],
            f"{place}.end": cut.model_dump(
                mode="json", include={"until": True, "align": {"drift"}}
            ),
        }
        meaning = self.checkpoint_contract()
        return {**contract, f"{place}.value": meaning} if meaning else contract

    def selected(self, read: Mapping[str, str]) -> dict[str, str]:
        """Return the columns and types after ``select``; all columns unchanged without one.

        Args:
            read: All columns of a row before ``select``: names and Spark SQL types.

        Returns:
            Names and Spark SQL types of the output columns.

        Raises:
            InputError: An expression uses a column that is not in ``read``, combines several rows,
                is not SQL, or does not declare its type.
        """
        if not self.select:
            return dict(read)
        return names_and_types(self.selection.columns(parse_schema(read)))

    def check_rate(self, limit: RateLimit) -> None:
        """Refuse a rate limit of a topic in anything but ``offsets``.

        Args:
            limit: Rate limit per second.

        Raises:
            InputError: The limit has ``bytes``, ``files`` or ``rows``.
        """
        require_meaning(self.name, "a topic", limit, ["offsets"])

    def check_after(self, before: DeclaredSource | None) -> None:
        """Refuse a first topic without start or columns, and ``on_gap: extend`` without files.

        Args:
            before: The source right before this one; None if this is the first.

        Raises:
            ValueError: This is the first source and has ``start: previous`` or no ``schema``; or
                it has ``on_gap: extend`` and the source before reads topics.
        """
        if before is None:
            if self.start == "previous":
                message = (
                    f"source `{self.name}` is the first, so `start: previous` (the default) has no "
                    "meaning. Declare `start: earliest`, `start: latest`, or a fixed position such "
                    "as `start: {timestamp: 2024-01-01T00:00:00Z}`."
                )
                raise ValueError(message)
            if self.declared_columns is None:
                message = (
                    f"source `{self.name}` is the first, so no source before it has columns: it "
                    "needs a `schema`. Declare each column and its Spark SQL type, such as "
                    "`schema: {id: bigint, at: timestamp}`."
                )
                raise ValueError(message)
        elif before.has_hand_over and self.on_gap == "extend":
            message = (
                f"source `{self.name}`: `on_gap: extend` reads files that arrived in the meantime, "
                f"but source `{before.name}` before it reads topics. Declare `on_gap: fail`, or "
                "`on_gap: accept` if missing records are acceptable."
            )
            raise ValueError(message)

    def check_before(self, after: DeclaredSource | None, chain: Chain) -> None:
        """Refuse ``added_columns`` before the last source, and a merge of changes without order.

        Args:
            after: The source right after this one; None if this is the last.
            chain: The pipeline.

        Raises:
            ValueError: A source follows one with ``added_columns``; or the sink merges database
                changes and does not name the columns ``sequence`` and ``deleted``.
        """
        if self.changes is None:
            return
        if self.changes.added_columns and after is not None:
            message = (
                f"source `{self.name}` declares `added_columns`, but source `{after.name}` comes "
                "after it; only the last source can have them. Move `added_columns` to the last "
                "source."
            )
            raise ValueError(message)
        if chain.sink.mode == "append":
            return
        for field, part in (("sequence", "position"), ("deleted", "deleted")):
            if getattr(chain.sink, field) is None:
                message = (
                    f"source `{self.name}` holds changes of a database table, which the sink "
                    f"merges: `sink.{field}` is needed. Add `include: {{<column>: {part}}}` to "
                    f"`{self.name}`, and name that column as `sink.{field}`."
                )
                raise ValueError(message)

    @model_validator(mode="after")
    def _selects_what_is_declared(self) -> KafkaSource:
        if not self.select:
            return self
        if self.declared_columns is None:
            message = (
                "`select` needs a `schema` of the record's columns, which it computes the output "
                "columns from. Add `schema`, with the Spark SQL type of each column that `select` "
                "uses, or remove `select`."
            )
            raise ValueError(message)
        self.selected(self.declared_columns)
        return self

    @model_validator(mode="after")
    def _names_topics_once(self) -> KafkaSource:
        self.check_rate(self.rate)
        if bool(self.topics) == bool(self.topic_pattern):
            given = "both are declared" if self.topics else "neither is declared"
            message = f"{given}; declare either `topic` or `topic_pattern`."
            raise ValueError(message)
        if self.topic_pattern is not None:
            try:
                re.compile(self.topic_pattern)
            except re.error as error:
                message = (
                    f"`topic_pattern: {self.topic_pattern}` is not a regular expression: {error}. "
                    "Correct it, or list the names under `topic`."
                )
                raise ValueError(message) from None
        if len(set(self.topics)) < len(self.topics):
            message = f"`topic` names one twice: {', '.join(self.topics)}. Name each topic once."
            raise ValueError(message)
        for field, where in (("start", self.start), ("until", self.until)):
            unnamed = isinstance(where, StartAtOffsets) and "" in where.offsets
            if unnamed and len(self.topics) != 1:
                message = (
                    f"`{field}.offsets` does not say which topic its partitions belong to, and the "
                    "source does not read exactly one named topic. Write "
                    f"`{field}: {{offsets: {{<topic>: {{<partition>: <offset>}}}}}}`."
                )
                raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _misses_what_may_come(self) -> KafkaSource:
        if self.waits_for_topic and (self.until or isinstance(self.start, StartAtOffsets)):
            field = "until" if self.until else "start.offsets"
            message = (
                f"`missing_topic: wait` can't be combined with `{field}`: a topic that does not "
                f"exist yet has no such offsets. Remove one of the two."
            )
            raise ValueError(message)
        if isinstance(self.missing_topic, CreateTopic) and not self.topics:
            message = (
                "`missing_topic: {create: …}` needs the names of the topics, and `topic_pattern` "
                "is declared. List the names under `topic`, or declare `missing_topic: wait`."
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _leaves_out_what_may_come(self) -> KafkaSource:
        given = set() if self.align is None else self.align.model_fields_set
        if self.until is not None and "idle" in given:
            message = (
                "`align.idle` has no meaning with `until`, as no record comes to a range of "
                "offsets. Remove `idle`."
            )
            raise ValueError(message)
        return self
