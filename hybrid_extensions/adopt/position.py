"""Position of an adopted table: by its commits, offsets or a time; deleted records are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from sources.common.counting import counted
from sources.common.fields import Instant
from sources.common.positions import HeldOffsets, Offsets, StartPosition
from sources.common.times import iso, now_ms, to_ms
from sources.config.source.kafka_options import StartAtOffsets
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, SeamError, StateError
from sources.hybrid import SourceSwitchContext
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.start.log_checks import written_offsets
from sources.kafka.start.start_offsets import Known, StartLookUp
from spark_jobs.table.commit_position import CommitPosition

_NAME_OFFSETS_OR_RECOMPUTE = (
    "Name the first offset of each partition whose record is not in the table: `hybrid adopt P "
    "--offsets '{\"0\": 17}'`. Or compute the table again: name another `sink.path`, and run "
    "`hybrid run P`."
)


@dataclass(frozen=True)
class Asked:
    """Position and version that are asked for: exactly one of the three kinds of position.

    Attributes:
        offsets: By topic, which is empty text if there is one, and partition; None if not given.
        time: From when on records are not in the table; None if not given.
        version: Version of the table; None for the newest.
    """

    offsets: dict[str, dict[int, int]] | None = None
    time: datetime | None = None
    version: int | None = None

    @property
    def by_commits(self) -> bool:
        """Whether the commits of the table say the position."""
        return self.offsets is None and self.time is None

    @classmethod
    def of(
        cls, offsets: str | None, time: str | None, version: int | None, *, from_commits: bool
    ) -> Self:
        """Parse the options of the command.

        Whether the topic has the partitions of the offsets is not checked here.

        Raises:
            InputError: None or several of the three are given, or one is not valid.
        """
        options = {
            "--from-commits": from_commits,
            "--offsets": offsets is not None,
            "--time": time is not None,
        }
        given = [name for name, is_given in options.items() if is_given]
        if len(given) != 1:
            message = (
                "Exactly one of three options has to say at which position the table ends; given: "
                f"{' and '.join(f'`{name}`' for name in given) or 'none of them'}."
            )
            hint = (
                "Give `--from-commits` alone for a table that this project wrote, `--offsets` or "
                "`--time` alone for another one."
            )
            raise InputError(message, hint)
        try:
            if offsets is not None:
                declared = StartAtOffsets.model_validate({"offsets": json.loads(offsets)}).offsets
                if all(each >= 0 for parts in declared.values() for each in parts.values()):
                    return cls(declared, None, version)
                raise ValueError(offsets)
            if time is not None:
                return cls(None, TypeAdapter(Instant).validate_python(time), version)
        except (ValidationError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            option = f"{given[0]} {time if offsets is None else offsets}"
            message = f"`{option}` is no position at which a table could end."
            hint = (
                'Offsets are `{"0": 17, "1": 4}`, or `{"topic": {"0": 17}}` for several '
                "topics; a time is `2024-01-01T00:00:00Z`, with its zone."
            )
            raise InputError(message, hint, value=option) from None
        return cls(None, None, version)


def offsets_of(
    asked: Asked, said: CommitPosition | None, source: KafkaSource, log: KafkaLog
) -> Offsets:
    """Return the first offset of each partition that is not in the table.

    For a time that is each partition's first record from then on, or its end if there is none.

    Args:
        asked: What was asked for.
        said: What the commits of the table say; None unless that was asked for.
        source: The last source, which continues from there.
        log: Look-ups on its topics.

    Raises:
        InputError: The broker refuses.
        SeamError: A partition is left out or does not exist; or the time is in the future, or Kafka
            may have deleted records from then on.
        StateError: The commits say no position of the source, or one of other topics, or one that
            needs history.
        UnavailableError: The broker does not answer.
    """
    if said is not None:
        return _of_commits(said, source, log)
    if asked.time is not None:
        return _at(asked.time, source, log)
    what = "The declared offsets of the table"
    return written_offsets(asked.offsets or {}, log.partitions, what)


def start_at(offsets: Offsets, source: KafkaSource, log: KafkaLog) -> StartPosition:
    """Return the start of a topic right after what a table holds.

    A partition without an offset appeared later: it starts at 0.

    Raises:
        SeamError: Kafka has deleted records from there on, and the source does not accept that; or
            an offset is beyond the log end.
        UnavailableError: The broker does not answer.
    """
    starts = log.log_start()
    for partition, offset in sorted(offsets.items()):
        if offset < starts.get(partition, offset) and source.on_gap != "accept":
            lost = starts[partition] - offset
            message = (
                f"The table is not adopted. It ends before offset {offset} of topic "
                f"`{partition.topic}`, partition {partition.partition}, and the log starts at "
                f"{starts[partition]}. Kafka has deleted the {counted(lost, 'offset')} between, "
                "whose rows would be missing."
            )
            hint = (
                "Compute the table again from history that covers them: name another `sink.path`, "
                f"and run `hybrid run P`. Or declare `on_gap: accept` for source `{source.name}`, "
                "and adopt the table again (`hybrid adopt P`). Nothing was changed."
            )
            raise SeamError(
                message,
                hint,
                source=source.name,
                topic=partition.topic,
                partition=partition.partition,
                offset=offset,
            )
    # A partition that appeared later has nothing in the table.
    held = HeldOffsets(
        next={at: offsets.get(at, 0) for at in {*log.partitions, *offsets}}, exact=True, holes={}
    )
    context = SourceSwitchContext(None, log)
    return StartLookUp(source, context, 0, now_ms(), Known()).after_offsets(held)


def _of_commits(said: CommitPosition, source: KafkaSource, log: KafkaLog) -> Offsets:
    where = f"micro-batch {said.batch} of {said.generation}"
    offsets = said.offsets_of(source.name)
    if offsets is None:
        known = ", ".join(f"`{name}`" for name in said.sources) or "none"
        message = (
            f"The table's commits end with {where}, which has read nothing of `{source.name}` yet "
            f"(sources that it has begun: {known}). So history is not complete in the table."
        )
        raise StateError(message, _NAME_OFFSETS_OR_RECOMPUTE, source=source.name)
    if said.seam:
        message = (
            f"The table's commits end with {where}, in which rows of `{source.name}` that history "
            "holds were still filtered: what comes next depends on history, too."
        )
        raise StateError(message, _NAME_OFFSETS_OR_RECOMPUTE, source=source.name)
    found = log.identities()
    for topic, identity in said.topics.items():
        if found.get(topic) != identity:
            message = (
                f"Topic `{topic}` is not the one that {where} has read: its offsets have another "
                f"meaning. That was {identity} (cluster id/topic id), found is "
                f"{found.get(topic, 'no topic')}."
            )
            raise StateError(message, _NAME_OFFSETS_OR_RECOMPUTE, source=source.name, topic=topic)
    return offsets


def _at(moment: datetime, source: KafkaSource, log: KafkaLog) -> Offsets:
    """Return each partition's first record from a time on; without one its end, read before."""
    time_ms = to_ms(moment)
    if time_ms > now_ms():
        message = (
            f"`--time {iso(time_ms)}` is in the future: which record is the first one from then on "
            "is not known yet."
        )
        raise SeamError(message, _NAME_OFFSETS_OR_RECOMPUTE, source=source.name)
    ends = log.log_end()
    answers, starts = log.offsets_for_time(time_ms), log.log_start()
    found: dict[Any, int] = {}
    for partition, answer in answers.items():
        found[partition] = ends[partition] if answer is None else answer
        if starts[partition] and found[partition] <= starts[partition]:
            message = (
                f"Topic `{partition.topic}`, partition {partition.partition}: Kafka has deleted "
                f"its records before offset {starts[partition]}, and no record that is left is "
                f"before {iso(time_ms)}: whether records from then on are missing is not known."
            )
            raise SeamError(
                message,
                _NAME_OFFSETS_OR_RECOMPUTE,
                source=source.name,
                topic=partition.topic,
                partition=partition.partition,
            )
    return found
