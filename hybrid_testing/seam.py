"""Assertion `across_seam`: a transform gives the same table wherever history ends, or restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pyarrow as pa
from pyspark.sql import SparkSession

from hybrid_testing.differences import Differences, SeamAssertionError, differences
from hybrid_testing.rows import (
    ONE,
    Inputs,
    Rows,
    Schema,
    arrow_schema,
    arrow_table,
    event_time_of,
    in_order,
)
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
    history: Rows | Mapping[str, Rows],
    live: Rows | Mapping[str, Rows] = (),
    cut: Literal["every", "given"] | int | Sequence[int] = "every",
    restarts: bool = True,
    mode: Literal["append", "merge"] = "append",
    key: Sequence[str] = (),
    event_time: str | None = None,
    schema: Schema | Mapping[str, Schema] | None = None,
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

    With several inputs, rows are given by the name of the input. All of them are merged by event
    time, and a cut is a number of these: each input is cut there. ``live`` is given by input if
    ``history`` is, and has no other inputs; anything else is refused.

    Args:
        transform: The function that a pipeline names as its ``transform``.
        history: Rows in the order in which they happened or arrived; or such rows by input.
        live: Rows that arrive after them, in this order; or such rows by input.
        cut: Where history ends, in rows: ``every`` place between two rows, the one that is
            ``given``, or one or several numbers of rows.
        restarts: Also read each row in a micro-batch of its own, with a restart after each.
        mode: ``sink.mode`` of the pipeline. ``append`` writes what is final, ``merge`` updates rows
            by ``key``.
        key: ``sink.key``, which identifies a row of the result; all of its columns by default.
        event_time: Event-time column of the rows; not needed if they have only one timestamp.
        schema: Columns of the rows, or of those of each input; found in the rows by default.
        sink: Further fields of ``sink``, such as ``{"sequence": "version"}``.
        tolerance: By floating-point column: by which part of its value it may differ, as
            ``audit.tolerance``; needs ``key``.
        spark: The session; by default the active one.

    Raises:
        SeamAssertionError: A result differs, or a run fails: the transform can't be applied to a
            stream, or drops late rows. It has the first differing rows, and the cut.
        InputError: The rows, ``cut`` or another argument can't be used as they are.
    """
    given, inputs = _inputs(history, live, schema)
    if mode == "merge" and not key:
        message = "`key` is needed with `mode='merge'`: by it rows of the table are updated."
        raise InputError(message, "Name the columns of `sink.key`.", field="key")
    times = {event_time_of(rows.schema, event_time) for rows in inputs.values()}
    if len(times) > 1:
        message = f"The inputs have different event-time columns: {', '.join(sorted(times))}."
        raise InputError(message, "A pipeline has one `event_time`: rename them to one name.")
    (at,) = times
    order = in_order(inputs, at)
    cuts = _cuts(cut, given, order)
    trial = Trial(require_session(spark), transform, at, {"mode": mode, **(sink or {})})
    with TemporaryDirectory(prefix="hybrid-testing-", ignore_cleanup_errors=True) as folder:
        comparison = _Comparison(trial, inputs, order, tuple(key), tolerance or {}, Path(folder))
        comparison.run(cuts, restarts)


def _inputs(
    history: Rows | Mapping[str, Rows],
    live: Rows | Mapping[str, Rows],
    schema: Schema | Mapping[str, Schema] | None,
) -> tuple[Counter[str], Inputs]:
    """Return how many rows history has of each input, and all rows of each input."""
    if not isinstance(history, Mapping):
        history, live, schema = {ONE: history}, {ONE: live}, schema and {ONE: schema}
    given, inputs = Counter[str](), Inputs()
    is_empty = isinstance(live, list | tuple) and not live
    after = live if isinstance(live, Mapping) else {} if is_empty else {"live": live}
    if lost := sorted(after.keys() - history.keys()):
        message = (
            f"`history` has the inputs {', '.join(history)}, and `live` has rows of `{lost[0]}`, "
            "which would not be read."
        )
        hint = "Give `live` the rows of the same inputs by name, `{name: rows}`."
        raise InputError(message, hint, field="live")
    for name, rows in history.items():
        own = schema[name] if isinstance(schema, Mapping) else None
        before = arrow_table(rows, None if own is None else arrow_schema(own))
        both = [before, arrow_table(after.get(name, ()), before.schema)]
        given[name], inputs[name] = before.num_rows, pa.concat_tables(both).combine_chunks()
    for name, every in inputs.items():
        if not every.num_rows and len(inputs) > 1:
            message = f"Input `{name}` has no row."
            raise InputError(message, "Give each input at least one row.", field="history")
    return given, inputs


def _cuts(
    cut: str | int | Sequence[int], given: Counter[str], order: Sequence[str]
) -> list[Counter[str]]:
    """Return the numbers of rows of history to try, by input.

    Raises:
        InputError: There are no rows, or a number leaves no row on one side.
    """
    rows = len(order)
    if not rows:
        message = "Neither `history` nor `live` has a row."
        raise InputError(message, "Give at least two rows.", field="history")
    if cut == "every":
        return [Counter(order[:number]) for number in range(1, rows)]
    wanted = [given.total()] if cut == "given" else [cut] if isinstance(cut, int) else cut
    for each in wanted:
        if not isinstance(each, int) or not 0 < each < rows:
            message = f"`cut` is {each!r}, which does not leave rows on both sides of the seam."
            hint = f"There are {counted(rows, 'row')}: name a number from 1 to {rows - 1}."
            raise InputError(message, hint, field="cut", value=str(each))
    return [given] if cut == "given" else [Counter(order[: int(each)]) for each in wanted]


@dataclass
class _Comparison:
    """Comparison of a transform's tables over different cuts of the same rows."""

    trial: Trial
    inputs: Inputs
    order: Sequence[str]
    key: tuple[str, ...]
    tolerance: Mapping[str, float]
    folder: Path

    def run(self, cuts: Sequence[Counter[str]], restarts: bool) -> None:
        """Try each cut, then a restart after each row."""
        self._folders = self._new_folders()
        name = self.trial.name
        self.key = self.key or tuple(self.trial.returned(self.inputs, next(self._folders)))
        # Without any, the analysis says why.
        columns = next(iter(self.inputs.values())).column_names
        sink = {**self.trial.sink, "key": list(self.key or columns)}
        self.trial = replace(self.trial, sink=sink)
        try:
            self.trial.require_stream(self.inputs, next(self._folders))
            whole = self._table([])
        except TrialError as error:
            message = f"`{name}` fails as the transform of a pipeline: {error}"
            raise SeamAssertionError(message) from error
        total = len(self.order)
        for cut in cuts:
            number = cut.total()
            where = f"history ends after {number} of {total} rows, before {self._row(number)}"
            self._require_same(name, whole, [cut], where)
        if restarts and total > 2:
            where = "each row comes in a micro-batch of its own, with a restart after each"
            every = [Counter(self.order[:number]) for number in range(1, total)]
            self._require_same(name, whole, every, where)

    def _require_same(self, name: str, whole: Folder, cuts: list[Counter[str]], where: str) -> None:
        cut = cuts[0].total() if len(cuts) == 1 else None
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

    def _table(self, cuts: Sequence[Counter[str]]) -> Folder:
        """Return the table of the rows, cut at some places."""
        every = Counter({name: rows.num_rows for name, rows in self.inputs.items()})
        parts = [
            {
                name: rows.slice(begin[name], end[name] - begin[name])
                for name, rows in self.inputs.items()
            }
            for begin, end in pairwise([Counter[str](), *cuts, every])
        ]
        return self.trial.table(parts, next(self._folders))

    def _new_folders(self) -> Iterator[Path]:
        for number in count():
            path = self.folder / str(number)
            path.mkdir()
            yield path

    def _row(self, number: int) -> str:
        name = self.order[number]
        (row,) = self.inputs[name].slice(self.order[:number].count(name), 1).to_pylist()
        return f"{name}(" + ", ".join(f"{name}={value}" for name, value in row.items()) + ")"
