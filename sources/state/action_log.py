"""Append-only log of actions on a pipeline: who did what, when, and with which outcome.

Each action is two documents in the pipeline's folder of the state: one that is written before
anything is changed, and one after it. So an action that is in the log was done, failed, or, if its
process was killed in between, is shown as begun. Numbers grow by one; none is used twice, whoever
acts at the same time.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sources.common.state_document import Record
from sources.common.times import now_ms
from sources.errors import HybridError, StateError
from sources.storage.folder import Folder

Outcome = Literal["begun", "done", "failed", "given up"]
"""How an action has ended; ``begun`` if it has not."""
_FOLDER = "actions"
_BEGUN = "-begun.json"
_ENDED = "-ended.json"


class Action(Record):
    """Entry that is written before an action begins.

    Attributes:
        id: Random id, by which its writer recognizes it.
        action: What is done, such as ``pause``.
        by: Who does it, as given; empty if unknown.
        at_ms: When it began, in Unix milliseconds.
        generation: Name of the generation that it is about; None if it is about the pipeline.
        before: Values that the action changes, as they were before: text by name.
    """

    id: str
    action: str
    by: str
    at_ms: int
    generation: str | None
    before: dict[str, str]


class ActionEnd(Record):
    """Entry that is written after an action has ended.

    Attributes:
        at_ms: When it ended, in Unix milliseconds.
        outcome: ``done``, ``failed``, or ``given up`` for a promotion that was aborted.
        after: Values that the action changed, as they are afterwards: text by name.
        error: Why it failed; empty if it did not.
    """

    at_ms: int
    outcome: Literal["done", "failed", "given up"]
    after: dict[str, str]
    error: str = ""


class LoggedAction(BaseModel):
    """Action in the log, with its end if there is one.

    Attributes:
        number: Number of the action, from 1.
        action, by, at_ms, generation, before: As in :class:`Action`.
        ended_ms: When it ended, in Unix milliseconds; None if that is not known.
        outcome: ``begun`` if it has not ended: it still runs, or its process was killed.
        after, error: As in :class:`ActionEnd`.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    action: str
    by: str
    at_ms: int
    generation: str | None
    before: dict[str, str]
    ended_ms: int | None = None
    outcome: Outcome = "begun"
    after: dict[str, str] = Field(default_factory=dict)
    error: str = ""


def begin_action(
    home: Folder,
    action: str,
    by: str | None,
    generation: str | None = None,
    before: Mapping[str, str] | None = None,
) -> int:
    """Log the beginning of an action; call it right before anything is changed.

    Args:
        home: The pipeline's folder in the state.
        action: What is done.
        by: Who does it; None or empty if unknown.
        generation: Name of the generation that it is about.
        before: What it changes, as it is now.

    Returns:
        The number of the action, for :func:`end_action`.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    own = Action(
        id=uuid.uuid4().hex,
        action=action,
        by=(by or "").strip(),
        at_ms=now_ms(),
        generation=generation,
        before=dict(before or {}),
    )
    number = max(_numbers(home), default=0) + 1
    # Another process may have taken the number.
    while home.put_if_absent(_name(number, _BEGUN), own).id != own.id:
        number += 1
    return number


def end_action(
    home: Folder,
    number: int,
    outcome: Literal["done", "failed", "given up"],
    after: Mapping[str, str] | None = None,
    error: str = "",
) -> None:
    """Log the end of an action; if an end is logged already, nothing is written.

    Args:
        home: The pipeline's folder in the state.
        number: Number of the action, from :func:`begin_action`.
        outcome: How it ended.
        after: Values that it changed, as they are now: text by name.
        error: Why it failed; empty if it did not.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    end = ActionEnd(at_ms=now_ms(), outcome=outcome, after=dict(after or {}), error=error)
    home.put_if_absent(_name(number, _ENDED), end)


@contextmanager
def recorded(
    home: Folder,
    action: str,
    by: str | None,
    generation: str | None = None,
    before: Mapping[str, str] | None = None,
    *,
    is_required: bool = True,
) -> Iterator[dict[str, str]]:
    """Log the beginning and the end of an action that the body of ``with`` performs.

    An exception in the body is logged as ``failed`` and raised on.

    Args:
        home: The pipeline's folder in the state.
        action: What is done, such as ``pause``.
        by: Who does it; None or empty if unknown.
        generation: Name of the generation that it is about; None if it is about the pipeline.
        before: Values that it changes, as they are now: text by name.
        is_required: Whether an action that can't be logged is refused. If False, it is performed
            without an entry, as a run must be stopped even where a disk is full.

    Yields:
        An empty dictionary, which the body fills with the changed values: text by name.

    Raises:
        StateError, UnavailableError: The log can't be written. Before the body only with
            ``is_required``, and then nothing was changed; after it the action itself is done.
    """
    after: dict[str, str] = {}
    try:
        number = begin_action(home, action, by, generation, before)
    except HybridError:
        if is_required:
            raise
        yield after
        return
    try:
        yield after
    except BaseException as error:
        other = type(error).__name__ if isinstance(error, Exception) else "interrupted"
        text = error.message if isinstance(error, HybridError) else other
        # The error of the action itself is the one to report.
        with contextlib.suppress(HybridError, OSError):
            end_action(home, number, "failed", after, text)
        raise
    end_action(home, number, "done", after)


def read_actions(home: Folder, last: int | None = None) -> list[LoggedAction]:
    """Return the log's actions, the oldest first; empty if there are none.

    Args:
        home: The pipeline's folder in the state.
        last: How many of the latest entries are read, at least 1; all of them without it.

    Raises:
        StateError: The state can't be read, or a document is damaged.
        UnavailableError: The state's store does not answer.
    """
    numbers = sorted(_numbers(home))
    return [_read(home, number) for number in (numbers if last is None else numbers[-last:])]


def _read(home: Folder, number: int) -> LoggedAction:
    begun = home.read(_name(number, _BEGUN), Action)
    if begun is None:
        place = home.location(_name(number, _BEGUN))
        message = f"State file {place} was removed while the log of actions was read."
        hint = "Try again, and don't remove files of the log."
        raise StateError(message, hint, file=place)
    end = home.read(_name(number, _ENDED), ActionEnd)
    fields = begun.model_dump(exclude={"version", "id"})
    if end is not None:
        fields |= {"ended_ms": end.at_ms, **end.model_dump(exclude={"version", "at_ms"})}
    return LoggedAction(number=number, **fields)


def _numbers(home: Folder) -> list[int]:
    names = home.names(f"{_FOLDER}/*{_BEGUN}")
    return [int(name.removeprefix(f"{_FOLDER}/").removesuffix(_BEGUN)) for name in names]


def _name(number: int, ending: str) -> str:
    return f"{_FOLDER}/{number:06d}{ending}"
