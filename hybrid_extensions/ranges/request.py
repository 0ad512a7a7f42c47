"""Request for ranges of several pipelines: one after the other, and the result of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hybrid_extensions.ranges.backfill import RangeLook, RangeResult
from hybrid_extensions.ranges.range_scope import utc
from orchestration.remedies import Remedy, as_commands
from sources.common.counting import counted
from sources.common.fields import parse_instant
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, HybridError, InputError

State = Literal["done", "failed", "interrupted", "not started"]
_DATE = len("2024-03-01")


class Span(NamedTuple):
    """Range of event times, as a command names it.

    Attributes:
        since: First event time (inclusive), with a time zone.
        until: First event time after it (exclusive).
    """

    since: datetime
    until: datetime

    @classmethod
    def parse(cls, text: str) -> Span:
        """Return the range of a text: ``2024-03-01/2024-03-04`` without its end, or one date.

        Args:
            text: Two dates, or times with a zone, as an ISO 8601 interval; or a date.

        Raises:
            InputError: The text is something else, or the range is empty.
        """
        begin, slash, end = text.partition("/")
        if not slash and len(begin) != _DATE:
            message = f"`{text}` is not a range of event times."
            hint = (
                "Write a day, 2024-03-01, or begin/end, of which the end is not a part: "
                "2024-03-01/2024-03-04."
            )
            raise InputError(message, hint, value=text)
        since = parse_instant(begin)
        until = parse_instant(end) if slash else since + timedelta(days=1)
        if since >= until:
            message = f"The range `{text}` is empty."
            raise InputError(message, "Write an end that is later than the begin.", value=text)
        return cls(since, until)

    def __str__(self) -> str:
        return f"{utc(self.since)}/{utc(self.until)}"


@dataclass(frozen=True)
class RangeOutcome:
    """What became of one range of a request.

    Attributes:
        loaded: Its pipeline.
        span: The range.
        state: ``done``, ``failed``, ``interrupted`` while it was recomputed, or ``not started``.
        result: What was done, or would be read; None if it is not done.
        error: Why it failed; None if it did not.
    """

    loaded: LoadedPipeline
    span: Span
    state: State
    result: RangeResult | RangeLook | None = None
    error: ErrorReport | None = None

    @property
    def text(self) -> str:
        """What was done, or why it failed, with commands on its own pipeline's file."""
        told = self.result.text if self.result is not None else str(self.error or "")
        return as_commands(told, str(self.loaded.path))


def recompute_all(
    pipelines: Sequence[LoadedPipeline],
    spans: Sequence[Span],
    act: Callable[[LoadedPipeline, Span], RangeResult | RangeLook],
    tell: Callable[[str], None],
) -> list[RangeOutcome]:
    """Act on each range of each pipeline, one after the other; one that fails holds up no other.

    An interruption (Ctrl-C) ends the range at work, which is then as it was or whole, and begins no
    further one.

    Args:
        pipelines: The pipelines.
        spans: The ranges, the same ones for each pipeline.
        act: Recomputes, or looks at, one range.
        tell: Called with a line before and after each range.

    Returns:
        One outcome for each range of each pipeline, in order; a range that is there twice counts
        once.
    """
    asked = [(loaded, span) for loaded in pipelines for span in dict.fromkeys(spans)]
    found: list[RangeOutcome] = []
    for number, (loaded, span) in enumerate(asked, 1):
        place = f"{number:,} of {len(asked):,}: {loaded.pipeline.name} {span}"
        if found and found[-1].state in ("interrupted", "not started"):
            found.append(RangeOutcome(loaded, span, "not started"))
            continue
        tell(place)
        try:
            found.append(RangeOutcome(loaded, span, "done", act(loaded, span)))
        except HybridError as error:
            found.append(RangeOutcome(loaded, span, "failed", error=error.report()))
        except KeyboardInterrupt:
            found.append(RangeOutcome(loaded, span, "interrupted"))
        tell(f"{place}: {found[-1].state}. {found[-1].text}".rstrip())
    return found


def commands_for_rest(found: Sequence[RangeOutcome]) -> list[str]:
    """Return the commands that do what is not done, one for each pipeline; none if all is done."""
    rest: dict[Path, list[str]] = {}
    for each in found:
        if each.state != "done":
            rest.setdefault(each.loaded.path, []).extend(["--range", str(each.span)])
    return [Remedy("backfill", tuple(words)).command(str(file)) for file, words in rest.items()]


def document(found: Sequence[RangeOutcome]) -> dict[str, Any]:
    """Return the outcomes of a request as a JSON object, with the commands for the rest."""
    rows = [
        {
            "pipeline": each.loaded.pipeline.name,
            "since": utc(each.span.since),
            "until": utc(each.span.until),
            "state": each.state,
            **({} if each.result is None else each.result.document),
            **({} if each.error is None else {"error": each.error.model_dump(), "text": each.text}),
        }
        for each in found
    ]
    is_ok = all(each.state == "done" for each in found)
    return {"ok": is_ok, "ranges": rows, "rest": commands_for_rest(found)}


def in_words(found: Sequence[RangeOutcome]) -> str:
    """Return the result of each range, and the commands that do the rest."""
    done = sum(each.state == "done" for each in found)
    lines = [f"{done:,} of {counted(len(found), 'range is', 'ranges are')} done."]
    lines += [
        f"  {each.loaded.pipeline.name} {each.span}: {each.state}. {each.text}".rstrip()
        for each in found
    ]
    if rest := commands_for_rest(found):
        lines += ["For the others, correct what failed, then run:", *(f"  {each}" for each in rest)]
    return "\n".join(lines)
