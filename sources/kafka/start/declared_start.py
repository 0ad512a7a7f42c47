"""Start offsets of a Kafka source, decided by what it declares and by the end of history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sources.common.durations import span_ms
from sources.common.positions import Gap, StartPosition
from sources.common.times import now_ms, to_ms
from sources.config.source.kafka_options import (
    StartAgo,
    StartAtOffsets,
    StartAtTimestamp,
    StartByFactory,
)
from sources.config.source.kafka_source import KafkaSource
from sources.errors import ErrorFields, InputError, SeamError, UnavailableError
from sources.hybrid import SourceFactory, SourceSwitchContext
from sources.kafka.start.start_offsets import Known, StartLookUp

UserFactory = Callable[[SourceSwitchContext], Any]
"""Function of ``start.factory``; what it returns is checked after the call."""
_WAY_OUT = (
    "No start was decided, as rows could be missing from the table. Let the files of history cover "
    "these records (`on_gap: extend` reads files that arrived in the meantime), or declare "
    "`on_gap: accept` for source `{}` to continue without these records."
)
_MEND = (
    "No start was decided, as rows could be missing from the table: a single row with a wrong "
    "clock moves the end of history. Declare `complete_through` for source `{1}`, the time up to "
    "which its files are complete; or leave such rows out: declare `not_after` under the "
    "pipeline's `event_time`. To continue without these records, declare `on_gap: accept` for "
    "source `{0}`."
)


class GapError(SeamError):
    """Error of a hand-over at which records are in neither history nor Kafka's log.

    Args:
        source: Name of the source that would start.
        gaps: At least one; several may be of the same partition.
        ended: Name of the source before if its end time is implausible, so that the hint says how
            to declare it; else None.

    Attributes:
        gaps: The gaps, as given.
    """

    def __init__(self, source: str, gaps: Sequence[Gap], ended: str | None = None) -> None:
        first = gaps[0]
        more = f" (and {len(gaps) - 1} more of this kind)" if len(gaps) > 1 else ""
        fields = ErrorFields(source=source, topic=first.topic, partition=first.partition)
        if first.from_offset is not None:
            fields["offset"] = first.from_offset
        if ended is not None:
            fields["field"] = "complete_through"
        super().__init__(
            f"Topic `{first.topic}`, partition {first.partition}: {first.why}{more}.",
            (_WAY_OUT if ended is None else _MEND).format(source, ended),
            **fields,
        )
        self.gaps = list(gaps)


def factory_for(
    source: KafkaSource,
    lateness_ms: int,
    load: Callable[[str], UserFactory],
    now_ms: Callable[[], int] = now_ms,
    known: Known | None = None,
) -> SourceFactory:
    """Return the function that decides a source's start position, as it declares under ``start``.

    It is called at the hand-over, with the end of the source before (FLIP-150's source factory). It
    raises GapError for a gap without ``on_gap: accept``; SeamError if a time lies in the future, an
    offset is not in the log, a partition is left out or unknown, the source before has not
    finished, or the user's factory fails; UnavailableError if the broker does not answer; and
    InputError if it refuses, or the user's factory can't be imported.

    Args:
        source: Declaration of the source.
        lateness_ms: How many milliseconds behind the newest record one may still be appended.
        load: Imports the user's factory, ``module:function``.
        now_ms: Clock, returning Unix milliseconds.
        known: What declaration and plan say about the hand-over; by default nothing.
    """

    def decide(context: SourceSwitchContext) -> StartPosition:
        look_up = StartLookUp(source, context, lateness_ms, now_ms(), known or Known())
        position = _decide(source, context, look_up, load)
        if position.gaps and source.on_gap != "accept":
            raise GapError(source.name, position.gaps, look_up.distrusted)
        return position

    return decide


def _decide(
    source: KafkaSource,
    context: SourceSwitchContext,
    look_up: StartLookUp,
    load: Callable[[str], UserFactory],
) -> StartPosition:
    start = source.start
    if isinstance(start, StartAtOffsets):
        return look_up.at_offsets(start.offsets, "fixed")
    if isinstance(start, StartAtTimestamp):
        return look_up.at_time(to_ms(start.timestamp), "fixed")
    if isinstance(start, StartAgo):
        return look_up.at_time(look_up.now_ms - span_ms(start.ago), "fixed")
    if isinstance(start, StartByFactory):
        return _from_user(look_up, start.factory, _call(start.factory, load, context))
    if start == "earliest":
        return look_up.at_log_start()
    if start == "latest":
        return look_up.at_log_end()
    previous = context.previous
    if previous is None:
        message = (
            f"Source `{source.name}` has `start: previous`, but no source before it has finished."
        )
        hint = (
            "Run the sources before it to their ends first: `hybrid run P`. Or declare a fixed "
            f"`start` for source `{source.name}`, such as `earliest`."
        )
        raise SeamError(message, hint, source=source.name, field="start")
    if held := previous.exact_offsets:
        return look_up.after_offsets(held)
    position = look_up.at_time(previous.complete_through_ms, previous.evidence)
    return position if previous.offsets is None else look_up.not_after(previous.offsets, position)


def _call(name: str, load: Callable[[str], UserFactory], context: SourceSwitchContext) -> Any:
    factory = load(name)
    try:
        return factory(context)
    except UnavailableError:
        raise
    # The user's code: whatever it raises is the answer.
    except Exception as error:
        message = f"`start.factory: {name}` raised {type(error).__name__}: {error}."
        hint = f"Correct the function `{name}`, then try again: no start was decided."
        raise SeamError(message, hint, field="start.factory") from error


def _from_user(look_up: StartLookUp, name: str, answer: Any) -> StartPosition:
    """Return the start position for what the user's factory returned."""
    if isinstance(answer, datetime) and answer.tzinfo is not None:
        return look_up.at_time(to_ms(answer), "factory")
    try:
        if isinstance(answer, Mapping):
            offsets = StartAtOffsets.model_validate({"offsets": dict(answer)})
            return look_up.at_offsets(offsets.offsets, "factory")
    except ValueError as error:
        if isinstance(error, InputError):
            raise
    message = (
        f"`start.factory: {name}` returned {repr(answer)[:200]}, which is neither a datetime with "
        "a time zone nor an offset for each partition."
    )
    hint = (
        "Let the function return a datetime with a time zone, or offsets by partition, such as {0: "
        "17, 1: 4}; then try again."
    )
    raise SeamError(message, hint, field="start.factory", value=repr(answer))
