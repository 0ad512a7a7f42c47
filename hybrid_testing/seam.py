"""The assertion that the place of the seam does not change the result of a transform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pyarrow as pa
from pyspark.sql import SparkSession

from hybrid_testing.differences import Differences, SeamAssertionError, differences
from hybrid_testing.rows import Rows, Schema, arrow_schema, arrow_table, event_time_of
from hybrid_testing.session import require_session
from hybrid_testing.trial import Trial, TrialError
from hybrid_testing.under_test import Transform
from sources.common.counting import counted
from sources.errors import InputError
from sources.storage.folder import Folder

_VARIES = (
    "It gives another result each time that it is run, even on all rows in one piece: it depends "
    "on the clock, on chance, or on what a process remembers, such as `current_timestamp()` or "
    "`rand()`. Compute it from columns of the row."
)
_DEPENDS = (
    "All rows in one piece give the same result each time, so it depends on which rows come "
    "together in a micro-batch, as what a UDF counts or remembers does. Let a stateful operator "
    "keep what is needed of earlier rows, and let `withWatermark` allow for the latest row."
)


def across_seam(  # noqa: PLR0913 - what a test may vary
    transform: Transform,
    *,
    history: Rows,
    live: Rows = (),
    cut: Literal["every", "given"] | int | Sequence[int] = "every",
    restarts: bool = True,
    mode: Literal["append", "merge"] = "append",
    key: Sequence[str] = (),
    event_time: str | None = None,
    schema: Schema | None = None,
    sink: Mapping[str, object] | None = None,
    tolerance: Mapping[str, float] | None = None,
    spark: SparkSession | None = None,
) -> None:
    """Assert that a transform gives the same table wherever history ends and live rows begin.

    The rows, those of ``history`` before those of ``live``, are read as a pipeline reads them: by
    one query on one checkpoint, which is started again at the cut. Each such table is compared with
    that of all rows in one micro-batch. A row with an earlier event time than a row before it is
    late; rows that stateful operators drop behind the watermark fail the test.

    Rows that history and topic both hold never reach a transform twice, so give each row once.

    Args:
        transform: The function that a pipeline names as its ``transform``.
        history: Rows in the order in which they happened or arrived.
        live: Rows that arrive after them, in this order.
        cut: Where history ends, in rows: ``every`` place between two rows, the one that is
            ``given``, or one or several numbers of rows.
        restarts: Also read each row in a micro-batch of its own, with a restart after each.
        mode: ``sink.mode`` of the pipeline. ``append`` writes what is final, ``merge`` updates rows
            by ``key``.
        key: ``sink.key``, which identifies a row of the result; all of its columns by default.
        event_time: Event-time column of the rows; not needed if they have only one timestamp.
        schema: Columns of the rows; found in the rows by default.
        sink: Further fields of ``sink``, such as ``{"sequence": "version"}``.
        tolerance: By floating-point column: by which part of its value it may differ, as
            ``audit.tolerance``; needs ``key``.
        spark: The session; by default the active one.

    Raises:
        SeamAssertionError: A result differs, or a run fails: the transform can't be applied to a
            stream, or drops late rows. It has the first differing rows, and the cut.
        InputError: The rows, ``cut`` or another argument can't be used as they are.
    """
    columns = None if schema is None else arrow_schema(schema)
    before = arrow_table(history, columns)
    rows = pa.concat_tables([before, arrow_table(live, before.schema)]).combine_chunks()
    cuts = _cuts(cut, before.num_rows, rows.num_rows)
    if mode == "merge" and not key:
        message = "`key` is needed with `mode='merge'`: by it rows of the table are updated."
        raise InputError(message, "Name the columns of `sink.key`.", field="key")
    at = event_time_of(rows.schema, event_time)
    trial = Trial(require_session(spark), transform, at, {"mode": mode, **(sink or {})})
    with TemporaryDirectory(prefix="hybrid-testing-", ignore_cleanup_errors=True) as folder:
        _Comparison(trial, rows, tuple(key), tolerance or {}, Path(folder)).run(cuts, restarts)


def _cuts(cut: str | int | Sequence[int], given: int, rows: int) -> list[int]:
    """Return the numbers of rows of history to try.

    Raises:
        InputError: There are no rows, or a number leaves no row on one side.
    """
    if not rows:
        message = "Neither `history` nor `live` has a row."
        raise InputError(message, "Give at least two rows.", field="history")
    if cut == "every":
        return list(range(1, rows))
    wanted = [given] if cut == "given" else [cut] if isinstance(cut, int) else cut
    for each in wanted:
        if not isinstance(each, int) or not 0 < each < rows:
            message = f"`cut` is {each!r}, which does not leave rows on both sides of the seam."
            hint = f"There are {counted(rows, 'row')}: name a number from 1 to {rows - 1}."
            raise InputError(message, hint, field="cut", value=str(each))
    return [int(each) for each in wanted]


@dataclass
class _Comparison:
    """Comparison of a transform's tables over different cuts of the same rows."""

    trial: Trial
    rows: pa.Table
    key: tuple[str, ...]
    tolerance: Mapping[str, float]
    folder: Path

    def run(self, cuts: Sequence[int], restarts: bool) -> None:
        """Try each cut, then a restart after each row."""
        self._folders = self._new_folders()
        name = self.trial.name
        columns = self.rows.schema
        self.key = self.key or tuple(self.trial.returned(columns, next(self._folders)))
        # Without any, the analysis says why.
        sink = {**self.trial.sink, "key": list(self.key or columns.names)}
        self.trial = replace(self.trial, sink=sink)
        try:
            self.trial.require_stream(columns, next(self._folders))
            whole = self._table([])
        except TrialError as error:
            message = f"`{name}` fails as the transform of a pipeline: {error}"
            raise SeamAssertionError(message) from error
        total = self.rows.num_rows
        for cut in cuts:
            where = f"history ends after {cut} of {total} rows, before {self._row(cut)}"
            self._require_same(name, whole, [cut], where)
        if restarts and total > 2:
            where = "each row comes in a micro-batch of its own, with a restart after each"
            self._require_same(name, whole, list(range(1, total)), where)

    def _require_same(self, name: str, whole: Folder, cuts: list[int], where: str) -> None:
        cut = cuts[0] if len(cuts) == 1 else None
        try:
            found = self._compared(whole, self._table(cuts))
        except TrialError as error:
            message = f"`{name}` fails if {where}: {error}"
            raise SeamAssertionError(message, cut) from error
        if found.counts:
            again = self._compared(whole, self._table([]))
            reason = _VARIES if again.counts else _DEPENDS
            lines = "\n".join(f"  {line}" for line in found.lines)
            message = (
                f"`{name}` does not give the table of all rows in one piece if {where}:\n{lines}\n"
                f"{reason}"
            )
            raise SeamAssertionError(message, cut, found.counts)

    def _compared(self, expected: Folder, found: Folder) -> Differences:
        return differences(expected, found, self.key, self.tolerance)

    def _table(self, cuts: Sequence[int]) -> Folder:
        """Return the table of the rows, cut at some places."""
        ends = [0, *cuts, self.rows.num_rows]
        parts = [self.rows.slice(begin, end - begin) for begin, end in pairwise(ends)]
        return self.trial.table(parts, next(self._folders))

    def _new_folders(self) -> Iterator[Path]:
        for number in count():
            path = self.folder / str(number)
            path.mkdir()
            yield path

    def _row(self, number: int) -> str:
        (row,) = self.rows.slice(number, 1).to_pylist()
        return "(" + ", ".join(f"{name}={value}" for name, value in row.items()) + ")"
