"""Merging in Spark around barriers of cuts: one commit up to a barrier, the next beyond it.

The part of a micro-batch from before the barrier is committed under a transaction of its own, whose
version is the barrier's number; the rest under that of the micro-batch, as if it were the whole. A
driver that ends in between leaves the micro-batch uncommitted: it is merged again as a whole, which
changes no row twice, as changes are merged by their sequence.
"""

from __future__ import annotations

import time
from functools import partial

from deltalake import Transaction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from hybrid_extensions.cuts.barrier import (
    Barrier,
    BarrierStep,
    Crossing,
    read_barrier,
    read_crossing,
    step,
    write_crossing,
)
from hybrid_extensions.cuts.declare import CutsSection
from sources.common.sql.sql_names import in_backticks
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.state.generation import Generation
from spark_jobs.inside.sink.merging.merge_strategy import Merging
from spark_jobs.table.delta_table import commit_nothing, commit_once, open_table, version_of
from spark_jobs.table.ownership.target_guard import TargetGuard

PATIENCE_S = 5.0
"""Seconds that a micro-batch waits for the position of a barrier."""
_POLL_S = 0.05
_WHY = {
    BarrierStep.LATE: "a change from before the barrier came after changes from behind it",
    BarrierStep.BARRED: (
        "the driver was started, or its query built again, after the barrier was opened"
    ),
}


def cut_id(generation: Generation) -> str:
    """Return Delta's application id of the commits up to a barrier; their version is its number."""
    return f"{generation.info.transaction_id}-cut"


def merging(loaded: LoadedPipeline, plain: Merging) -> Merging:
    """Return a pipeline's merging of micro-batches, which observes barriers if it declares cuts.

    Args:
        loaded: The pipeline.
        plain: The merging without barriers, returned unchanged if the pipeline declares no cuts.

    Raises:
        InputError: The pipeline declares cuts, and its table can't be read.
        StateError: The document of its barrier is damaged.
        UnavailableError: A store does not answer.
    """
    return plain if loaded.section(CutsSection).cuts is None else Barriers(plain)


class Barriers(Merging):
    """Merging of a query's micro-batches that observes the barriers of its generation.

    Creating it bars the newest barrier, by a commit to the table: an earlier driver that still runs
    can't split a micro-batch by it any more, which would undo later changes.

    Args:
        plain: The merging without barriers; ``sequence`` of its sink is the log position of a
            change.

    Raises:
        InputError: There was a barrier, and the table can't be read.
        StateError: The document of the barrier is damaged.
        UnavailableError: A store does not answer.
    """

    def __init__(self, plain: Merging) -> None:
        super().__init__(plain.sink, plain.target, plain.generation, plain.rows)
        newest = read_barrier(self.generation)
        self._barred = -1 if newest is None else newest.number
        if newest is not None:
            self._bar(newest.number)

    def batch(self, batch: DataFrame, batch_id: int, guard: TargetGuard) -> None:
        """Merge a micro-batch; in two commits if an open barrier divides it.

        Waits up to 5 s for the position of a barrier that was just opened, then gives the barrier
        up.

        Args:
            batch: Rows that the transform returned.
            batch_id: Number of the micro-batch.
            guard: Refuses a micro-batch that does not follow what the target holds.

        Raises:
            InputError: The table can't be read.
            StateError: The guard refuses, or the state can't be read or written.
            UnavailableError: A store does not answer.
        """
        # Before the guard looks: whoever was replaced after this can't split by this barrier.
        barrier = self._open_barrier(batch_id)
        guard.before(batch_id)
        if barrier is None or barrier.position is None:
            self.rows(batch, batch_id)
            return
        batch = batch.persist()
        try:
            self._merge_at(barrier, barrier.position, batch, batch_id)
        finally:
            batch.unpersist()

    def _merge_at(self, barrier: Barrier, position: str, batch: DataFrame, batch_id: int) -> None:
        # Rows of the snapshot have no position, and are from before every change.
        is_before = F.coalesce(
            F.col(in_backticks(self.sink.order[0])) < F.lit(position), F.lit(True)
        )
        before, behind = batch.agg(F.count_if(is_before), F.count_if(~is_before)).first() or (0, 0)
        decided = step(
            batch_id,
            before,
            behind,
            read_crossing(self.generation, barrier.number),
            is_barred=barrier.number <= self._barred,
        )
        rest = batch
        if decided in _WHY:
            self._give_up(barrier, batch_id, _WHY[decided])
        elif decided is BarrierStep.SPLIT:
            self.rows(batch.where(is_before), barrier.number, application=cut_id(self.generation))
            rest = batch.where(~is_before)
        if decided in (BarrierStep.SPLIT, BarrierStep.CROSS):
            # Before the rest: what has no answer has nothing from behind the barrier.
            answer = Crossing(
                number=barrier.number, batch=batch_id, table_version=version_of(self.target)
            )
            write_crossing(self.generation, answer)
        self.rows(rest, batch_id)

    def _open_barrier(self, batch_id: int) -> Barrier | None:
        """Return the barrier that this micro-batch has to regard, with its position; or None.

        Waits for the position for some seconds, and gives the barrier up if that does not come.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            barrier = read_barrier(self.generation)
            if barrier is None or not barrier.is_open:
                return None
            crossing = read_crossing(self.generation, barrier.number)
            if crossing is not None and crossing.failure is not None:
                return None
            if now_ms() > barrier.until_ms:
                self._give_up(barrier, batch_id, "its time was over")
                return None
            if barrier.position is not None:
                return barrier
            if time.monotonic() > deadline:
                why = f"its position was not written within {PATIENCE_S:.0f} s"
                self._give_up(barrier, batch_id, why)
                return None
            time.sleep(max(self.generation.poll_s, _POLL_S))

    def _give_up(self, barrier: Barrier, batch_id: int, why: str) -> None:
        write_crossing(
            self.generation, Crossing(number=barrier.number, batch=batch_id, failure=why)
        )

    def _bar(self, number: int) -> None:
        application = cut_id(self.generation)
        table = open_table(self.target)
        recorded = table.transaction_version(application)
        if recorded is None or recorded < number:
            transaction = Transaction(application, number)
            commit_once(partial(commit_nothing, table), self.target, transaction)
