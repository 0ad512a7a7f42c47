"""Record of a whole table's comparison: rows that differ are looked at again, or stay unknown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hybrid_extensions.cdc.compared.compared_table import compared_tables
from hybrid_extensions.cdc.compared.kept_compare import ComparedRange, keep_whole
from hybrid_extensions.cdc.compared.key_range import KeyRange
from hybrid_extensions.compare.compare_range import LiveRun, compare_range
from hybrid_extensions.compare.compare_source import SourceComparison
from orchestration.comparison.report import EXAMPLES
from sources.common.counting import counted
from sources.common.times import now_ms
from sources.planning.context import PipelineContext


class FurtherLooks(NamedTuple):
    """Results of rechecking rows that differed from the database at the first look.

    Attributes:
        text: The result as a sentence.
        differing: Number of keys that still differ; None if that could not be judged.
        examples: Some of these keys, as text.
    """

    text: str
    differing: int | None
    examples: Sequence[str] = ()


def compared_in_words(found: SourceComparison, again: FurtherLooks | None) -> list[str]:
    """Return the result of a whole table's comparison as lines for people.

    The numbers of the first look are shown only if the rechecks have not replaced them.

    Args:
        found: Result of the first look.
        again: Result of the rechecks; None if there were none.
    """
    if again is not None and again.differing == 0:
        late = counted(found.only_in_source + found.only_in_target, "row")
        return [
            f"{found.table}: {counted(found.rows, 'row')}; no key differs.",
            f"A first look found {late} of both tables whose changes were on their way.",
        ]
    if again is not None and again.differing:
        return [f"{found.table}: {again.text}", *again.examples]
    return [
        *(_sides_in_words(each) for each in found.shards or [found]),
        *found.examples,
        *([] if again is None else [again.text]),
    ]


def _sides_in_words(found: SourceComparison) -> str:
    name = f"{found.shard} ({found.table})" if found.shard else found.table
    return (
        f"{name}: {counted(found.rows, 'row')}, {found.found:,} in the target; "
        f"{found.only_in_source:,} only in the source, {found.only_in_target:,} only in the target."
    )


def keep_compared(
    context: PipelineContext,
    found: SourceComparison,
    begun_ms: int,
    look_at_run: Callable[[], LiveRun],
    say: Callable[[str], None] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
) -> FurtherLooks | None:
    """Record a comparison of a whole table, after rechecking the rows that differ.

    If rows can't be judged, as the live run is behind or does not run, nothing is recorded: rows on
    their way differ, too.

    Args:
        context: The pipeline and its generation.
        found: Result of the first look.
        begun_ms: When that began, in ms since 1970.
        look_at_run: Returns the present state of the live run that writes the target.
        say: Called with a line before it waits.
        wait: Called with seconds to wait.

    Returns:
        Result of the rechecks; None if no row differed.

    Raises:
        InputError: One of the two tables can't be read.
        StateError: The state can't be read or written.
        UnavailableError: The database or a store does not answer.
    """
    if found.ok:
        whole = ComparedRange(
            first=None, until=None, at_ms=now_ms(), rows=found.rows, differing=0, examples=[]
        )
        keep_whole(context.generation, whole, begun_ms)
        return None
    why_not = look_at_run().why_not
    if why_not is None:
        say("Rows differ; looking again, as their changes may be on their way.")
        begun_ms = now_ms()
        judged = _compare_again(context, look_at_run, wait)
        if isinstance(judged, ComparedRange):
            keep_whole(context.generation, judged, begun_ms)
            differing = judged.differing
            text = f"{counted(differing, 'key differs', 'keys differ')} after further looks."
            return FurtherLooks(text, differing, judged.examples)
        why_not = judged
    text = (
        f"It is unknown whether these rows are wrong or only delayed: {why_not}. `hybrid status P` "
        "keeps its earlier result. To find out, compare again while the live run is healthy."
    )
    return FurtherLooks(text, None)


def _compare_again(
    context: PipelineContext, look_at_run: Callable[[], LiveRun], wait: Callable[[float], None]
) -> ComparedRange | str:
    """Recheck the rows of a whole table, shard by shard; or return why they can't be judged."""
    pipeline = context.loaded.pipeline
    key = pipeline.sink.of_table(pipeline.topics[-1].topic_columns).key
    rows = differing = 0
    examples: list[str] = []
    for asked in compared_tables(context.loaded):
        judged = compare_range(asked, key, KeyRange("", ""), look_at_run, wait)
        if judged.found is None:
            return str(judged.why_not)
        rows += judged.found.rows
        differing += judged.found.differing
        of_shard = f"{asked.shard}: " if asked.shard else ""
        examples += [f"{of_shard}{line}" for line in judged.found.examples]
    return ComparedRange(
        first=None,
        until=None,
        at_ms=now_ms(),
        rows=rows,
        differing=differing,
        examples=examples[:EXAMPLES],
    )
