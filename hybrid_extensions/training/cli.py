"""Command `hybrid training`, which joins labels with the values that were known at their times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli import panels
from orchestration.cli.output import (
    AsJson,
    GenerationName,
    PipelineFile,
    answer,
    load,
    load_acting,
    tell,
)

if TYPE_CHECKING:
    from rich.table import Table

    from hybrid_extensions.training.sets.declare import DeclaredSet
    from hybrid_extensions.training.sets.range_states import RangeState
    from sources.config.loader import LoadedPipeline

app = typer.Typer()


@app.command(rich_help_panel=panels.MORE)
def training(  # noqa: PLR0913, PLR0917 - each is an option
    pipeline: PipelineFile,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Parquet file with key, time and label of each row. "
            "Without it, the declared `training_sets` are brought up to date."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Parquet file to write, replaced if it exists.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that labels and table share; may be repeated. Else those of `sink.key`."
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column with the time of a label; else the event time's name."),
    ] = None,
    known_at: Annotated[
        str | None,
        typer.Option(
            help="Column of the table: when a row became known; else `known_at`, or the event time."
        ),
    ] = None,
    generation: GenerationName = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Declared training set; may be repeated. All by default."),
    ] = None,
    range_: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            help="Range of label times to look at, such as 2024-01-31; may be repeated. "
            "All by default.",
        ),
    ] = None,
    status: Annotated[
        bool,
        typer.Option("--status", help="Only list what is up to date, and what is not and why."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write labels with the values of the table that were known at their times.

    For training: a label gets the last row of its key that was known at its time, never a later
    one. With `--labels` and `--out` these labels, into a file; without them the declared
    `training_sets`, of which only what is not up to date is computed.
    """
    with answer(as_json, "Nothing was written.") as show:
        if labels is None or out is None:
            _require_none(labels, out, key, time, known_at, generation)
            loaded = load(pipeline)
            sets = _chosen(loaded, set_ or [])
            show(*(_looked if status else _computed)(loaded, sets, range_))
            return
        from hybrid_extensions.training.columns import Asked
        from hybrid_extensions.training.point_in_time import read_labels, training_set, write_rows

        loaded = load_acting(pipeline, generation, as_kept=True)
        made = training_set(loaded, read_labels(labels), Asked(key or None, time, known_at))
        write_rows(made, out)
        counts = {"labels": len(made.rows), "known": made.known}
        text = f"Written: {out}, {len(made.rows):,} labels, {made.known:,} with known values."
        document = {"ok": True, "file": str(out), **counts, "notes": made.notes}
        show(document, "\n".join([text, *made.notes]))


def _require_none(*given: Any) -> None:
    """Refuse options of the join of a file with labels, where not both files are named."""
    from sources.errors import InputError

    if any(each for each in given):
        message = "`--labels` and `--out` belong together, and the other options of a join to them."
        hint = "Name both files; or none of these options, to compute the declared training sets."
        raise InputError(message, hint)


def _chosen(loaded: LoadedPipeline, names: list[str]) -> list[DeclaredSet]:
    """Return the training sets of these names, or all."""
    from hybrid_extensions.training.sets.declare import TrainingSection
    from hybrid_extensions.training.sets.range_states import set_of
    from sources.errors import InputError

    declared = loaded.section(TrainingSection).training_sets
    if not declared:
        message = f"Pipeline `{loaded.pipeline.name}` declares no `training_sets`."
        hint = (
            f"Add them to {loaded.path.name}; or name a file with labels: `hybrid training P "
            "--labels FILE --out FILE`."
        )
        raise InputError(message, hint, pipeline=loaded.pipeline.name, field="training_sets")
    return [set_of(loaded, name) for name in names] or declared


def _computed(
    loaded: LoadedPipeline, sets: list[DeclaredSet], ranges: list[str] | None
) -> tuple[dict[str, Any], str]:
    """Return the answer of a computation: its document, and its text."""
    from dataclasses import asdict

    from hybrid_extensions.training.sets.compute import compute

    done = {each.name: compute(loaded, each, ranges or None, tell) for each in sets}
    text = "\n".join(f"{name}: {each.text}" for name, each in done.items())
    return {"ok": True, "sets": {name: asdict(each) for name, each in done.items()}}, text


def _looked(
    loaded: LoadedPipeline, sets: list[DeclaredSet], ranges: list[str] | None
) -> tuple[dict[str, Any], Any]:
    """Return the answer about what is up to date: its document, and a table of each set."""
    from rich.console import Group

    from hybrid_extensions.training.sets.compute import look

    found = {
        each.name: [one for one in look(loaded, each) if not ranges or one.key in ranges]
        for each in sets
    }
    documents = {
        name: [
            {
                "range": each.key,
                "labels": each.rows,
                "current": each.is_current,
                "reasons": list(each.reasons),
            }
            for each in states
        ]
        for name, states in found.items()
    }
    view = Group(*(_table(name, states) for name, states in found.items()))
    return {"ok": True, "sets": documents}, view


def _table(name: str, states: list[RangeState]) -> Table:
    """Return a table of the ranges that are not up to date, and of how many are."""
    from rich.table import Table

    from sources.common.counting import counted

    current = sum(each.is_current for each in states)
    title = f"{name}: {counted(current, 'range')} of {len(states):,} up to date"
    table = Table(title=title, title_justify="left")
    for heading in ("range", "labels", "to compute, as"):
        table.add_column(heading, overflow="fold")
    for each in states:
        if not each.is_current:
            table.add_row(each.key, f"{each.rows:,}", ", ".join(each.reasons))
    return table
