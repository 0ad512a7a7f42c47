"""TRUNCATE of the captured table, in the order of changes: it removes all older rows.

In the rows it is a delete without a key: every column of the key is null, which no key of a table
is. Changes of other partitions of the topic may arrive later although they are older, so the
position of the last one is kept, before the rows are removed.
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import Sink
from sources.state.generation import Generation
from spark_jobs.inside.sink.merging.clauses import When, column
from spark_jobs.run_state.truncate_position import Truncated, read_truncated


class Truncation:
    """TRUNCATEs of the captured table in one generation; they remove all older rows.

    Args:
        sink: The declaration of the sink; its ``sequence`` is one column of text.
        generation: State of the generation, which keeps the position of the last one.

    Raises:
        StateError: The position of the last one is damaged.
        UnavailableError: The state's store does not answer.
    """

    def __init__(self, sink: Sink, generation: Generation) -> None:
        self._sink = sink
        self._generation = generation
        found = read_truncated(generation)
        self._last = None if found is None else found.position

    def last_in(self) -> Column:
        """Return an aggregate: the sequence of a batch's last TRUNCATE; null without one."""
        return F.max(F.when(self._is_truncate(), F.col(in_backticks(self._sink.order[0]))))

    def keep(self, position: str | None) -> None:
        """Record the sequence of a TRUNCATE in the state, if it is later than the last one.

        Call it before rows are removed; a repetition changes nothing.

        Args:
            position: The sequence; None for a batch without TRUNCATE, of which nothing is recorded.

        Raises:
            StateError: The state folder can't be written.
            UnavailableError: The state's store does not answer.
        """
        if position is not None and position > (self._last or ""):
            self._generation.replace(Truncated.NAME, Truncated(position=position))
            self._last = position

    def later(self, changes: DataFrame) -> DataFrame:
        """Return the changes that are later than every TRUNCATE so far; TRUNCATEs are left out.

        All changes if there was none. A change without a sequence counts as older than any.
        """
        if self._last is None:
            return changes
        sequence = F.coalesce(F.col(in_backticks(self._sink.order[0])), F.lit(""))
        return changes.where((sequence > F.lit(self._last)) & ~self._is_truncate())

    def hides_some(self, sequences: pa.ChunkedArray) -> bool:
        """Return whether a change may be older than the last TRUNCATE so far.

        Args:
            sequences: The changes' values of the sequence.
        """
        if self._last is None:
            return False
        return bool(pc.any(pc.less_equal(pc.fill_null(sequences, ""), self._last)).as_py())

    def clauses(self, position: str | None) -> list[When]:
        """Return the MERGE clause that removes rows older than a TRUNCATE; empty without one.

        Args:
            position: Sequence of the last TRUNCATE in the batch, as :meth:`last_in` returns it;
                None without one.
        """
        if position is None:
            return []
        older = f"coalesce({column('t', self._sink.order[0])}, '') < '{position}'"
        return [When("NOT MATCHED BY SOURCE", "DELETE", older)]

    def _is_truncate(self) -> Column:
        without_key = reduce(
            lambda left, right: left & right,
            (F.col(in_backticks(name)).isNull() for name in self._sink.key),
        )
        return F.coalesce(F.col(in_backticks(str(self._sink.deleted))), F.lit(False)) & without_key
