"""Collection of a report's content; a section that fails is replaced by the reason."""

from __future__ import annotations

import base64
from collections.abc import Callable
from importlib.metadata import version
from typing import TypeVar

from hybrid_extensions.comparison.compared_tables import (
    of_one_generation,
    open_target,
    require_own_rows,
)
from hybrid_extensions.comparison.keeping_audits import keep_audit
from hybrid_extensions.generations.overview import overview
from hybrid_extensions.report import plot_data
from hybrid_extensions.report.hand_overs import hand_overs
from hybrid_extensions.report.model import (
    GenerationsPart,
    Missing,
    Plot,
    ProgressPart,
    Report,
    SourcePace,
    TargetPart,
)
from hybrid_extensions.report.plan_part import plan_part
from orchestration.comparison.installed_audit import audit
from orchestration.comparison.kept_audit import KeptAudit, read_audit
from orchestration.progress.forecast import rate
from orchestration.supervision.status import status
from sources.common.optional import require_extra
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError
from sources.extensions import contributions
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from sources.serving import generation_with_role, pending_switch, read_serving, target_of
from sources.storage.tables.delta import query_rows, unreadable_table
from spark_jobs.run_state.progress_log import ProgressLog

T = TypeVar("T")


def collect(loaded: LoadedPipeline, *, with_audit: bool = False) -> Report:
    """Collect the content of a report about a generation, as of now.

    Nothing is changed, except that a new audit is kept. A section that fails, as for a broker that
    does not answer, raises nothing: the report says why it is missing.

    Args:
        loaded: The pipeline, as declared by the file that the generation runs by.
        with_audit: Make an audit now, and keep it with the state.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    name, audited = loaded.pipeline.name, of_one_generation(loaded)
    return Report(
        pipeline=name,
        file=loaded.path.name,
        at_ms=now_ms(),
        version=version("hybrid-backfill"),
        generation=generation_with_role(loaded),
        table=target_of(loaded).url,
        state=loaded.state.url,
        status=_section(lambda: status(loaded)),
        parts=_section(lambda: [part(loaded) for part in contributions("status")]),
        target=_section(lambda: _target(loaded)),
        plan=_section(lambda: plan_part(PipelineContext.require(loaded))),
        hand_overs=_section(lambda: hand_overs(PipelineContext.require(loaded))),
        generations=_section(lambda: _generations(loaded)),
        audit=_section(
            lambda: keep_audit(audited, audit(audited)) if with_audit else _kept_audit(loaded)
        ),
        progress=_section(lambda: _progress(PipelineContext.require(loaded))),
    )


def _section(make: Callable[[], T | Missing]) -> T | Missing:
    try:
        return make()
    except (HybridError, OSError) as error:
        return Missing(missing=str(error))


def _target(loaded: LoadedPipeline) -> TargetPart | Missing:
    require_own_rows(loaded)
    folder = target_of(loaded)
    if (target := open_target(folder)) is None:
        return Missing(missing=f"There is no table at {folder} yet: `hybrid run P` makes it.")
    try:
        # Unlike the statistics of its files, a query knows deletion vectors.
        found = query_rows(target, "SELECT count(*) AS rows FROM target").read_all()
    except Exception as error:  # delta-rs raises plain exceptions for missing files
        what = f"The rows of table {folder} can't be counted"
        repair = "Restore the table's data files from a backup, then make the report again."
        raise unreadable_table(what, folder, error, repair) from None
    return TargetPart(version=target.version(), rows=found["rows"].to_pylist()[0])


def _generations(loaded: LoadedPipeline) -> GenerationsPart | Missing:
    lines, serving = overview(loaded), read_serving(loaded)
    if not lines:
        text = "There is no generation yet: `hybrid plan P` plans the first one."
        return Missing(missing=text)
    switch = pending_switch(loaded)
    begun = {line.name: line.begun_ms for line in lines}
    last = max(serving.before, key=lambda each: each.until_ms, default=None)
    return GenerationsPart(
        lines=lines,
        serving=serving.generation,
        since_ms=begun.get(serving.generation, 0) if last is None else last.until_ms,
        replaced=None if last is None else last.generation,
        is_rollback=last is not None and int(last.generation[1:]) > int(serving.generation[1:]),
        pending=None
        if switch is None
        else f"A {switch.kind} from {switch.past} to {switch.to} is under way.",
    )


def _kept_audit(loaded: LoadedPipeline) -> KeptAudit | Missing:
    generation = loaded.open_generation(create=False)
    if generation is not None and (kept := read_audit(generation)) is not None:
        return kept
    return Missing(missing="No audit is kept: `hybrid audit P` makes one.")


def _progress(context: PipelineContext) -> ProgressPart | Missing:
    logs = plot_data.progress_logs(context.loaded)
    if not logs:
        return Missing(missing="No source has been read yet: `hybrid run P` reads them.")
    paces = [
        SourcePace(
            source=name,
            unit=log.unit,
            done=_done(context, name, log),
            left=log.samples[-1].left,
            per_s=rate(log),
            at_ms=log.samples[-1].at_ms,
        )
        for name, log in logs.items()
        if log.samples
    ]
    plots, notes = _plots(context.loaded)
    return ProgressPart(paces=paces, plots=plots, notes=notes)


def _done(context: PipelineContext, source: str, log: ProgressLog) -> int | None:
    """Return how much of a source was read; None if it is unknown where its topic was begun."""
    done = log.samples[-1].done
    if log.unit != "records":
        return done
    ledger, _ = read_ledger(context.generation, source)
    # Of a topic they are offsets, of which those before the start were never read.
    return None if ledger is None else done - sum(each.start for each in ledger.entries)


def _rows_by_day(loaded: LoadedPipeline) -> plot_data.RowsByDay | str:
    require_own_rows(loaded)
    return plot_data.rows_by_day(loaded)


def _plots(loaded: LoadedPipeline) -> tuple[list[Plot], list[str]]:
    """Return the pictures, and why some are missing."""
    try:
        require_extra("plots", "Drawing throughput and lag")
    except InputError as error:
        return [], [str(error)]
    # Half a second to import: only where something is plotted.
    from hybrid_extensions.report import plots  # noqa: PLC0415

    seam_ms = plot_data.seam_ms(loaded)
    progress = plots.phases(plot_data.progress_logs(loaded), seam_ms)
    drawn = [("Throughput, remaining input and event time", progress)]
    notes = []
    days: plot_data.RowsByDay | str | Missing = _section(lambda: _rows_by_day(loaded))
    if isinstance(days, Missing):
        notes.append(days.missing)
    elif isinstance(days, str):
        notes.append(days)
    else:
        picture = plots.rows_by_day(days.counts, days.column, seam_ms)
        drawn.append(("Rows of the table by day", picture))
    return [Plot(title=title, png=base64.b64encode(png).decode()) for title, png in drawn], notes
