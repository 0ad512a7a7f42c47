"""Backlog of a pipeline's last source: input that the target does not have yet.

The lag that the status shows, the wait until the stream has caught up and a drain all ask here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from orchestration.databases.database_log import SETTLED_S, DatabaseLog
from sources.common.counting import counted
from sources.config.source.kafka_source import KafkaSource
from sources.databases.altered_table import require_unaltered
from sources.databases.replication_slot import watched_slot
from sources.databases.table_watch import look_at_captured_table
from sources.errors import RunError
from sources.kafka.client.look_ups import TIMEOUT_S, KafkaLog
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.plan import log_server
from spark_jobs.checkpoint.offset_log import next_offsets
from spark_jobs.launch import process
from spark_jobs.launch.launch_record import log_path
from spark_jobs.run_state.heartbeat import Heartbeat

_POLL_S = 0.3
_SEAM_COUNT_S = 60.0
OPEN_S = 900.0
"""Seconds after which a broker has ended any transaction (``transaction.max.timeout.ms``)."""
_LOOK_S = 3.0
"""Seconds that a frequent look waits for the broker, as the next look asks it again."""


class Backlog(Protocol):
    """Input of an unbounded source that its run has not committed yet.

    Made by :func:`backlog_of`; each method looks anew.

    Attributes:
        unit: What is counted, in the plural: ``records``, or ``files or splits``.
    """

    unit: str

    def waiting(self, beat: Heartbeat | None) -> int:
        """Return how much input is not committed yet, by asking the broker or listing the folder.

        Args:
            beat: The run's latest heartbeat; None if it has not committed anything.

        Raises:
            InputError: The topic or the folder can't be read.
            UnavailableError: The broker or the store does not answer.
        """

    def reported(self, beat: Heartbeat) -> int | None:
        """Return how much input is not committed yet, without listing a folder; None if unknown.

        Args:
            beat: The run's latest heartbeat.

        Returns:
            None if the run has not reported it.

        Raises:
            InputError: The broker does not know the topic, or refuses.
            UnavailableError: The broker does not answer within about 3 s.
        """

    def held(self) -> int:
        """Return how many offsets can't be read yet because of an open transaction; else 0.

        They come on top of :meth:`waiting`.

        Raises:
            InputError: The broker does not know the topic, or refuses.
            UnavailableError: The broker does not answer.
        """

    def missing(self) -> list[str]:
        """Return the names of declared topics that do not exist yet and are waited for; maybe none.

        Raises:
            InputError: The broker does not know another topic, or refuses.
            UnavailableError: The broker does not answer.
        """


def backlog_of(context: PipelineContext, *, as_of_now: bool = False) -> Backlog:
    """Return the backlog of a pipeline's last source.

    Args:
        context: The pipeline and its state.
        as_of_now: Count only what is in the topic, or the folder, at the moment of this call.

    Raises:
        InputError: With ``as_of_now``: the topic or the folder can't be read.
        UnavailableError: With ``as_of_now``: the broker or the store does not answer.
    """
    last = context.pipeline.sources[-1]
    if isinstance(last, KafkaSource):
        return TopicBacklog(context, last, as_of_now=as_of_now)
    return FolderBacklogAsOfNow(context) if as_of_now else FolderBacklog(context)


def wait_until_caught_up(
    context: PipelineContext, on_waiting: Callable[[int, str], None] = lambda _count, _unit: None
) -> None:
    """Wait until the unbounded run has committed all input that its topics or folder hold.

    Input that arrives while it waits counts, too; so does what a captured database's log holds when
    this is called, and the connector has not read. There is no time limit, but for transactions
    that stay open: 15 minutes. It then waits, for a minute at most, until the run has also counted
    the rows of the seam, which the audit compares.

    Args:
        context: The pipeline and its state.
        on_waiting: Called at each look (every 0.3 s) with how much input is not committed yet, and
            in which unit that is counted, with what waits elsewhere.

    Raises:
        RunError: The run ended before that, no connector reads the database's log, or a
            transaction stays open.
        InputError: The topic or the folder can't be read, or something was done to the captured
            table that no change reports.
        UnavailableError: The broker, the store or the captured database does not answer.
    """
    name = context.pipeline.sources[-1].name
    backlog = backlog_of(context)
    connector = ConnectorWait(context)
    caught_up_at: float | None = None
    held_since: float | None = None
    while True:
        beat = process.find_running(context.generation, name)
        if beat is None:
            require_unaltered(context.generation)
            message = f"The live run of `{name}` ended before it had caught up with its input."
            hint = (
                f"Read why in {log_path(context.generation, name)} or with `hybrid logs P`, then "
                "start the run again: `hybrid resume P`. It continues after its last commit."
            )
            raise RunError(message, hint, source=name)
        waiting = backlog.waiting(beat)
        is_behind = connector.is_behind(waiting, beat)
        held = 0 if waiting else backlog.held()
        held_since = (held_since or time.monotonic()) if held else None
        unit = f"{backlog.unit}{connector.text}"
        on_waiting(waiting + held, f"{unit} behind an open transaction" if held else unit)
        if held_since is not None and time.monotonic() - held_since > OPEN_S:
            raise _open_transaction(name, held)
        if waiting == 0 and not held and not is_behind:
            caught_up_at = caught_up_at or time.monotonic()
            is_over = time.monotonic() - caught_up_at > _SEAM_COUNT_S
            if is_over or _seam_is_counted(context, name):
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
        f"`{name}` has not caught up with its input after {OPEN_S / 60:.0f} minutes: "
        f"{held_in_words(held)}"
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


class ConnectorWait:
    """Wait for the connector to write a captured table's changes to the topic.

    The connector is behind until it has confirmed that the topic holds the database's log up to its
    end at the first look; or until it has received that, and no record has come for
    :data:`~orchestration.databases.database_log.SETTLED_S`, as it confirms nothing while only other
    tables change. Never behind where no source declares a ``snapshot``.

    Args:
        context: The pipeline and its state.

    Attributes:
        text: What waits besides the input in the topic, as the end of a sentence, by the last look;
            empty if no log is watched.
    """

    def __init__(self, context: PipelineContext) -> None:
        self._context, self._is_looked_at = context, False
        options = watched_slot(context.loaded)
        server = log_server(context.generation)
        self._log = None if options is None else DatabaseLog(options, server)
        self._quiet: tuple[object, float] | None = None
        self.text = ""

    def is_behind(self, waiting: int, beat: Heartbeat | None) -> bool:
        """Look once; return whether changes may be missing from the topic. Called again and again.

        Args:
            waiting: Records in the topic that are not committed.
            beat: The run's latest heartbeat; None if it has none.

        Raises:
            RunError: No connector reads the slot, or it is missing or lost.
            InputError: Something was done to the captured table that no change reports.
            UnavailableError: The database does not answer.
            StateError: The state is damaged.
        """
        is_behind = self._is_behind(waiting, beat)
        if not is_behind and not self._is_looked_at:
            # Statements of the log that was waited for are reported by now.
            committed = None if beat is None else beat.offsets
            look_at_captured_table(self._context.loaded, self._context.generation, committed)
            self._is_looked_at = True
        return is_behind

    def _is_behind(self, waiting: int, beat: Heartbeat | None) -> bool:
        if self._log is None:
            return False
        unread = self._log.unread()
        self.text = (
            f" in the topic, and {self._log.describe(unread)}" if unread else " in the topic"
        )
        if self._log.is_confirmed:
            return False
        seen = (waiting, None if beat is None else beat.offsets)
        if unread or waiting or self._quiet is None or self._quiet[0] != seen:
            self._quiet = (seen, time.monotonic())
            return True
        return time.monotonic() - self._quiet[1] < SETTLED_S


class UpToNow:
    """All input that exists when this object is made, for a drain.

    That is what the topics or the folder hold, and the captured database's log: what the connector
    has not yet written to the topic counts once it is there. What arrives meanwhile may count or
    not.

    Args:
        context: The pipeline and its state.

    Attributes:
        is_committed: Whether the run has committed all of that input, by the last :meth:`left`.

    Raises:
        InputError: The topic or the folder can't be read.
        UnavailableError: The broker or the store does not answer.
    """

    def __init__(self, context: PipelineContext) -> None:
        self._context = context
        self._connector, self._is_written = ConnectorWait(context), False
        self._backlog = backlog_of(context, as_of_now=True)
        self.is_committed = False

    def left(self, beat: Heartbeat) -> int:
        """Look again; return how much of that input is not committed yet, in :attr:`unit`.

        0 is not the end while the connector is behind: see ``is_committed``.

        Args:
            beat: The run's latest heartbeat.

        Raises:
            RunError: No connector reads the captured database's log.
            InputError: The topic or the folder can't be read, or something was done to the captured
                table that no change reports.
            UnavailableError: The broker, the store or the captured database does not answer.
        """
        left = self._backlog.waiting(beat)
        if not self._is_written and not self._connector.is_behind(left, beat):
            # What the connector had to read then is in the topic now, and counts.
            self._is_written, self._backlog = True, backlog_of(self._context, as_of_now=True)
            left = self._backlog.waiting(beat)
        self.is_committed = left == 0 and self._is_written
        return left

    @property
    def unit(self) -> str:
        """What :meth:`left` counts, in the plural, with what the database's log still holds."""
        return f"{self._backlog.unit}{self._connector.text}"

    def held(self) -> int:
        """Return how many offsets can't be read yet because of an open transaction; else 0.

        Raises:
            InputError: The broker does not know the topic, or refuses.
            UnavailableError: The broker does not answer.
        """
        return self._backlog.held()


class TopicBacklog:
    """Backlog of topics in offsets; it keeps one connection to the broker.

    Offsets are more than records where transactions take some up.

    Args:
        context: The pipeline and its state.
        source: The source.
        as_of_now: Count up to the end offsets at the time of this call, open transactions included,
            not of each count.

    Raises:
        InputError: With ``as_of_now``: the broker does not know the topic, or refuses.
        UnavailableError: With ``as_of_now``: the broker does not answer.
    """

    unit = "records"

    def __init__(
        self, context: PipelineContext, source: KafkaSource, *, as_of_now: bool = False
    ) -> None:
        self._context = context
        self._source = source
        self._opened: KafkaLog | None = None
        self._ends = self._log().high_watermark() if as_of_now else None

    def waiting(self, beat: Heartbeat | None) -> int:
        """Return the number of offsets between the committed ones and the log end.

        A partition without a commit counts from its start offset; without one, from the first
        offset that Kafka still holds.

        Args:
            beat: The run's latest heartbeat. None, or one of a run that has not committed anything
                yet: what runs before it have committed is read from the checkpoint.

        Raises:
            InputError: The broker does not know the topic, or refuses.
            UnavailableError: The broker does not answer.
            StateError: A file of the checkpoint is missing.
        """
        log = self._log()
        start = self._context.switch_state.start_of(self._source.name)
        position = {**log.log_start(), **({} if start is None else start.offsets())}
        committed = None if beat is None else beat.offsets
        if committed is None:
            place = len(self._context.pipeline.sources) - 1
            committed = next_offsets(self._context.generation.checkpoint, place)
        position.update(committed)
        ends = log.log_end() if self._ends is None else self._ends
        return sum(max(end - position[partition], 0) for partition, end in ends.items())

    def reported(self, beat: Heartbeat) -> int:
        """Return the number of offsets that are not committed; the broker is waited for briefly.

        Args:
            beat: The run's latest heartbeat.

        Raises:
            InputError: The broker does not know the topic, or refuses.
            UnavailableError: The broker does not answer within about :data:`_LOOK_S` (3 s).
            StateError: A file of the checkpoint is missing.
        """
        self._log(_LOOK_S)
        return self.waiting(beat)

    def held(self) -> int:
        """Return how many offsets can't be read yet because of an open transaction.

        0 where the source declares ``isolation: read_uncommitted``.

        Raises:
            InputError: The broker does not know the topic, or refuses.
            UnavailableError: The broker does not answer.
        """
        if self._source.isolation == "read_uncommitted":
            return 0
        # In this order: what is read in between does not count.
        highest, ends = self._log().high_watermark(), self._log().log_end()
        return sum(max(end - ends.get(at, end), 0) for at, end in highest.items())

    def missing(self) -> list[str]:
        """Return the names of declared topics that do not exist yet and are waited for; maybe none.

        Raises:
            InputError: The broker does not know another topic, or refuses.
            UnavailableError: The broker does not answer.
        """
        return self._log().missing

    def _log(self, timeout_s: float = TIMEOUT_S) -> KafkaLog:
        # A topic that is waited for may exist by now.
        if self._opened is None or self._opened.missing:
            self._opened = KafkaLog(self._source, timeout_s)
        return self._opened


class FolderBacklog:
    """Backlog of a growing folder: uncommitted splits of known files, and new files.

    A file is discovered once a listing of the folder has added it to the plan; from then on its
    splits are counted, before that the file itself.

    Args:
        context: The pipeline and its state.
    """

    unit = "files or splits"

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def waiting(self, beat: Heartbeat | None) -> int:
        """List the folder; return the number of uncommitted splits and undiscovered files.

        Args:
            beat: The run's latest heartbeat; None if it has not committed anything.

        Raises:
            InputError: The folder can't be read.
            UnavailableError: The store does not answer.
        """
        folder = self._folder()
        return folder.splits - _done(beat) + len(folder.undiscovered())

    def reported(self, beat: Heartbeat) -> int | None:
        """Return the number of uncommitted splits of discovered files, as the run reported it.

        Args:
            beat: The run's latest heartbeat.

        Returns:
            None if the run has not reported how many splits there are.
        """
        return None if beat.splits_total is None else beat.splits_total - _done(beat)

    def held(self) -> int:
        """Return 0: every file in a folder can be read."""
        return 0

    def missing(self) -> list[str]:
        """Return an empty list: a folder reads no topics."""
        return []

    def _folder(self) -> GrowingFolder:
        return GrowingFolder(self._context)


class FolderBacklogAsOfNow(FolderBacklog):
    """Backlog of the files that are in a growing folder when this object is created.

    Args:
        context: The pipeline and its state.

    Raises:
        InputError: The folder can't be read.
        UnavailableError: The store does not answer.
    """

    def __init__(self, context: PipelineContext) -> None:
        super().__init__(context)
        self._undiscovered = self._folder().undiscovered()
        self._splits: int | None = None

    def waiting(self, beat: Heartbeat | None) -> int:
        """Return the number of those files and splits that are not committed yet.

        The folder is listed until all of these files are discovered; from then on it is not. The
        count includes splits of files that arrived in the meantime.

        Args:
            beat: The run's latest heartbeat; None if it has not committed anything.

        Raises:
            InputError: The folder can't be read.
            UnavailableError: The store does not answer.
        """
        if self._splits is None:
            folder = self._folder()
            # A file that is neither discovered nor there any more was removed again.
            self._undiscovered &= folder.undiscovered()
            if self._undiscovered:
                return len(self._undiscovered) + folder.splits - _done(beat)
            self._splits = folder.splits
        return max(self._splits - _done(beat), 0)


def _done(beat: Heartbeat | None) -> int:
    return 0 if beat is None or beat.splits_done is None else beat.splits_done
