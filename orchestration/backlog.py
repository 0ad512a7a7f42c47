"""Backlog of a pipeline's last source: input that the target does not have yet.

The lag that the status shows asks here, and :mod:`orchestration.catch_up`, which waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sources.common.counting import Noun
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.kafka_log import TIMEOUT_S, KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from spark_jobs.checkpoint.offset_log import next_offsets
from spark_jobs.run_state.heartbeat import Heartbeat

RECORDS = Noun("record", "records")
FILES_OR_SPLITS = Noun("file or split", "files or splits")
_LOOK_S = 3.0
"""Seconds that a frequent look waits for the broker, as the next look asks it again."""


class Backlog(Protocol):
    """Interface of a backlog: input of an unbounded source that its run has not committed yet.

    Made by :func:`backlog_of`; each method looks again at each call.

    Attributes:
        unit: What is counted.
    """

    unit: Noun

    def waiting(self, beat: Heartbeat | None) -> int:
        """Return how much input is not committed yet, by asking the broker or listing the folder.

        Args:
            beat: The run's latest heartbeat; None if it has not committed anything.

        Raises:
            InputError: The topic or the folder can't be read.
            UnavailableError: The broker or the store does not answer.
        """

    def reported(self, beat: Heartbeat, *, is_ended: bool) -> int | None:
        """Return how much input is not committed yet, without listing a folder; None if unknown.

        Args:
            beat: The run's latest heartbeat.
            is_ended: Whether it was stopped or paused, so that nobody lists the folder.

        Returns:
            None if only the run knows, and has not reported it or was stopped.

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
    """Return the backlog of a pipeline's last source; of several inputs that of all their topics.

    Args:
        context: The pipeline and its state.
        as_of_now: Count only what is in the topic, or the folder, at the moment of this call.

    Raises:
        InputError: With ``as_of_now``: the topic or the folder can't be read.
        StateError: With ``as_of_now``: there is no plan, the folder is no growing one, or the state
            is damaged.
        UnavailableError: With ``as_of_now``: the broker or the store does not answer.
    """
    read = context.pipeline.turn_of(context.pipeline.sources[-1].name)
    if topics := [each for each in read if isinstance(each, KafkaSource)]:
        parts = [TopicBacklog(context, each, as_of_now=as_of_now) for each in topics]
        return parts[0] if len(parts) == 1 else TopicsBacklog(parts)
    return FolderBacklogAsOfNow(context) if as_of_now else FolderBacklog(context)


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

    unit = RECORDS

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
            place = self._context.pipeline.place_of(self._source.name)
            committed = next_offsets(self._context.generation.checkpoint, place)
        position.update(committed)
        ends = log.log_end() if self._ends is None else self._ends
        return sum(max(end - position[partition], 0) for partition, end in ends.items())

    def reported(self, beat: Heartbeat, *, is_ended: bool) -> int:
        """Return the number of offsets that are not committed; the broker is waited for briefly.

        Args:
            beat: The run's latest heartbeat.
            is_ended: Without effect: the broker is asked.

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


class TopicsBacklog:
    """Backlog of the topics of several inputs, which one run reads.

    Args:
        parts: The backlog of each topic.
    """

    unit = RECORDS

    def __init__(self, parts: Sequence[TopicBacklog]) -> None:
        self._parts = parts

    def waiting(self, beat: Heartbeat | None) -> int:
        """Return the number of offsets of all topics that are not committed yet.

        Args:
            beat: The run's latest heartbeat; None if it has not committed anything.

        Raises:
            InputError, UnavailableError, StateError: As :meth:`TopicBacklog.waiting`.
        """
        return sum(part.waiting(beat) for part in self._parts)

    def reported(self, beat: Heartbeat, *, is_ended: bool) -> int:
        """Return the number of offsets that are not committed; brokers are waited for briefly.

        Args:
            beat: The run's latest heartbeat.
            is_ended: Without effect: the brokers are asked.

        Raises:
            InputError, UnavailableError, StateError: As :meth:`TopicBacklog.reported`.
        """
        return sum(part.reported(beat, is_ended=is_ended) for part in self._parts)

    def held(self) -> int:
        """Return how many offsets can't be read yet because of open transactions.

        Raises:
            InputError, UnavailableError: As :meth:`TopicBacklog.held`.
        """
        return sum(part.held() for part in self._parts)

    def missing(self) -> list[str]:
        """Return the names of declared topics that do not exist yet and are waited for; maybe none.

        Raises:
            InputError, UnavailableError: As :meth:`TopicBacklog.missing`.
        """
        return [name for part in self._parts for name in part.missing()]


class FolderBacklog:
    """Backlog of a growing folder: uncommitted splits of known files, and new files.

    A file is discovered once a listing of the folder has added it to the plan; from then on its
    splits are counted, before that the file itself.

    Args:
        context: The pipeline and its state.
    """

    unit = FILES_OR_SPLITS

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def waiting(self, beat: Heartbeat | None) -> int:
        """List the folder; return the number of uncommitted splits and undiscovered files.

        Args:
            beat: The run's latest heartbeat; None if it has not committed anything.

        Raises:
            InputError: The folder can't be read.
            StateError: There is no plan, the last source of the pipeline or of its plan is no
                growing folder, or the state is damaged.
            UnavailableError: A store does not answer.
        """
        folder = self._folder()
        return folder.splits - _done(beat) + len(folder.undiscovered())

    def reported(self, beat: Heartbeat, *, is_ended: bool) -> int | None:
        """Return the number of uncommitted splits of discovered files, as the run reported it.

        Args:
            beat: The run's latest heartbeat.
            is_ended: Whether it was stopped or paused, so that nobody lists the folder.

        Returns:
            None if the run has not reported how many splits there are, or was stopped: what has
            arrived since then is in no report.
        """
        total = None if is_ended else beat.splits_total
        return None if total is None else total - _done(beat)

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
        StateError: There is no plan, the last source of the pipeline or of its plan is no growing
            folder, or the state is damaged.
        UnavailableError: A store does not answer.
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
            StateError: There is no plan, the last source of the pipeline or of its plan is no
                growing folder, or the state is damaged.
            UnavailableError: A store does not answer.
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
