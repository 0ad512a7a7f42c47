"""Waiting until the live run has caught up with its input: transactions open for 15 min end it."""

from __future__ import annotations

import time
from collections.abc import Callable

from orchestration.backlog import backlog_of
from orchestration.capture.interface import capture_wait
from orchestration.remedies import for_generation
from sources.captured_tables import require_unaltered
from sources.common.counting import counted, counted_as
from sources.errors import RunError
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import Heartbeat

_POLL_S = 0.3
# How long the count of the seam, and windows that have ended, are waited for.
_AFTERWARDS_S = 60.0
OPEN_S = 900.0
"""Seconds after which a broker has ended any transaction (``transaction.max.timeout.ms``)."""


def wait_until_caught_up(
    context: PipelineContext, on_waiting: Callable[[int, str], None] = lambda _count, _unit: None
) -> None:
    """Wait until the unbounded run has committed all input that its topics or folder hold.

    Input that arrives while it waits counts, too; so does what a captured database's log holds when
    this is called, and the connector has not read. There is no time limit, but for transactions
    that stay open: 15 minutes. It then waits, for a minute at most, until the run has also counted
    the rows of the seam, which the audit compares, and written the windows that have ended.

    Args:
        context: The pipeline and its state.
        on_waiting: Called at each look (every 0.3 s) with how much input is not committed yet, and
            in which unit that is counted, with what waits elsewhere.

    Raises:
        RunError: The run ended before that, a transaction stays open, no connector reads the
            database's log, it confirms nothing more, or its slot is missing or lost.
        InputError: The topic or the folder can't be read, or something was done to the captured
            table that no change reports.
        StateError: State or checkpoint is damaged.
        UnavailableError: The broker, a store or the captured database does not answer.
    """
    name = context.pipeline.sources[-1].name
    backlog = backlog_of(context)
    connector = capture_wait(context)
    caught_up: tuple[float, Heartbeat] | None = None
    held_since: float | None = None
    while True:
        beat = run_control.find_running(context.generation, name)
        if beat is None:
            require_unaltered(context.generation)
            message = f"The live run of `{name}` ended before it had caught up with its input."
            hint = (
                "Read why with `hybrid logs P`, then start the run again: `hybrid resume P`. It "
                "continues after its last commit. Repeat this command if it is to wait."
            )
            hint = for_generation(hint, context.generation.name)
            raise RunError(message, hint, source=name)
        waiting = backlog.waiting(beat)
        is_behind = connector.is_behind(waiting, beat)
        held = 0 if waiting else backlog.held()
        held_since = (held_since or time.monotonic()) if held else None
        unit = f"{backlog.unit.fitting(waiting + held)}{connector.text}"
        on_waiting(waiting + held, f"{unit} behind an open transaction" if held else unit)
        if held_since is not None and time.monotonic() - held_since > OPEN_S:
            raise _open_transaction(name, held)
        if waiting == 0 and not held and not is_behind:
            since, first = caught_up = caught_up or (time.monotonic(), beat)
            is_done = _seam_is_counted(context, name) and _is_written(context, first, beat)
            if is_done or time.monotonic() - since > _AFTERWARDS_S:
                return
        time.sleep(max(_POLL_S, context.generation.poll_s))


def held_in_words(held: int) -> str:
    """Return a sentence about the number of offsets that an open transaction holds back."""
    return (
        f"{counted(held, 'offset')} of its topics can't be read yet, from the first open "
        "transaction on, whether or not the records behind it are committed: they are read once "
        "the transaction ends, or the broker ends it (`transaction.timeout.ms` of the producer)."
    )


def _open_transaction(name: str, held: int) -> RunError:
    message = (
        f"`{name}` is still behind its input after {OPEN_S / 60:.0f} minutes: {held_in_words(held)}"
    )
    hint = (
        "The run continues. Let the producer commit or abort; find a transaction that hangs with "
        "`kafka-transactions.sh find-hanging`, and end it with `abort`. Then run the pipeline "
        "again: `hybrid run P`."
    )
    return RunError(message, hint, source=name)


def _seam_is_counted(context: PipelineContext, source: str) -> bool:
    """Return whether the run has counted the rows of the seam; True if it removes none."""
    ledger, count = read_ledger(context.generation, source)
    return ledger is None or not ledger.is_filtered or count is not None


def _is_written(context: PipelineContext, first: Heartbeat, beat: Heartbeat) -> bool:
    """Return whether the run has written all rows that follow from the input it has committed.

    A window that ends by the last records of its input is appended by the micro-batch after theirs.

    Args:
        context: The pipeline and its state.
        first: The heartbeat by which all input was committed.
        beat: The latest one.
    """
    if beat.watermark_ms is None or context.pipeline.sink.mode != "append":
        return True
    return beat.idle or (beat.batch_id or 0) > (first.batch_id or 0)


class UpToNow:
    """Input that a drain waits to catch up with: all that exists when this object is made.

    That is what the topics or the folder hold, and the captured database's log: what the connector
    has not yet written to the topic counts once it is there. What arrives meanwhile may count or
    not.

    Args:
        context: The pipeline and its state.

    Attributes:
        is_committed: Whether the run has committed all of that input, by the last :meth:`left`.

    Raises:
        InputError: The topic or the folder can't be read.
        StateError: There is no plan, or the state is damaged.
        UnavailableError: The broker or the store does not answer.
    """

    def __init__(self, context: PipelineContext) -> None:
        self._context = context
        self._connector, self._is_written = capture_wait(context), False
        self._backlog = backlog_of(context, as_of_now=True)
        self.is_committed = False

    def left(self, beat: Heartbeat | None) -> int:
        """Look again; return how much of that input is not committed yet.

        0 is not the end while the connector is behind: see ``is_committed``.

        Args:
            beat: The run's latest heartbeat; None if it does not run.

        Raises:
            RunError: No connector reads the captured database's log, it confirms nothing more, or
                its slot is missing or lost.
            InputError: The topic or the folder can't be read, or something was done to the captured
                table that no change reports.
            StateError: State or checkpoint is damaged.
            UnavailableError: The broker, a store or the captured database does not answer.
        """
        left = self._backlog.waiting(beat)
        if not self._is_written and not self._connector.is_behind(left, beat):
            # What the connector had to read then is in the topic now, and counts.
            self._is_written, self._backlog = True, backlog_of(self._context, as_of_now=True)
            left = self._backlog.waiting(beat)
        self.is_committed = left == 0 and self._is_written
        return left

    def in_words(self, left: int) -> str:
        """Return what :meth:`left` counted as a clause: ``1 record is left``.

        Args:
            left: The count; what the database's log still holds is named with it.
        """
        what = f"{left:,} {self._backlog.unit.fitting(left)}{self._connector.text}"
        return f"{what} {counted_as(left, 'is', 'are')} left"

    def held(self) -> int:
        """Return how many offsets can't be read yet because of an open transaction; else 0.

        Raises:
            InputError: The broker does not know the topic, or refuses.
            UnavailableError: The broker does not answer.
        """
        return self._backlog.held()
