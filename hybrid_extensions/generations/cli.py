"""``hybrid generation …``: compute a new table next to the serving one, then switch readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli import panels, shell_remedies
from orchestration.cli.interrupts import sigterm_interrupts
from orchestration.cli.output import (
    NOTHING_CHANGED,
    AsJson,
    By,
    PipelineFile,
    answer,
    load,
    person,
    tell,
)
from orchestration.cli.usage import Group

if TYPE_CHECKING:
    from sources.config.loader import LoadedPipeline
    from sources.serving import Serving

Pipelines = Annotated[
    list[Path], typer.Argument(help="YAML files of pipelines.", metavar="PIPELINE...")
]
app = typer.Typer()
SERVES = "The table that readers see was not changed."
"""What a command leaves that only concerns a new generation."""
_generation = typer.Typer(
    cls=Group,
    help="Compute a new table next to the serving one; promote it, or roll back.",
    no_args_is_help=True,
)


@_generation.command("list")
def list_(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """List all generations: the serving one, one that waits, and those to roll back to."""
    with answer(as_json, NOTHING_CHANGED) as show:
        from hybrid_extensions.generations import terminal
        from hybrid_extensions.generations.overview import overview

        found = overview(load(pipeline))
        document = {"ok": True, "generations": [each.model_dump(mode="json") for each in found]}
        show(document, terminal.generations(found))


@_generation.command()
def new(pipeline: PipelineFile, by: By = None, as_json: AsJson = False) -> None:
    """Begin a new generation from the pipeline's file as it is now; the old one keeps serving."""
    with answer(as_json, SERVES) as show:
        from sources.generations import begin

        generation = begin(load(pipeline), person(by))
        text = (
            f"Generation {generation.name} is begun. `hybrid run P` computes its table, next "
            "to the serving one; then run `hybrid generation compare P`, and `promote`."
        )
        show({"ok": True, "generation": generation.name}, text)


@_generation.command()
def compare(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Compare the newest generation's table with the serving one, row by row.

    Nothing is changed; differences do not affect the exit status.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from hybrid_extensions.generations import terminal
        from hybrid_extensions.generations.comparison.compare_generations import compare_generations

        found = compare_generations(load(pipeline))
        show({"ok": True, **found.to_dict()}, terminal.comparison(found))


@_generation.command()
def promote(pipelines: Pipelines, by: By = None, as_json: AsJson = False) -> None:
    """Let readers see the newest generation, in one commit; `rollback` undoes it.

    Refused unless its history is read to the end and its live stream is healthy. Runs of the old
    one are stopped. Of several pipelines all newest generations are promoted, or none.
    """
    with answer(as_json) as show, sigterm_interrupts():
        from hybrid_extensions.generations.switch import group_switch, promotion

        loaded = _loaded(pipelines)
        if len(loaded) == 1:
            show(*_served(promotion.promote(loaded[0], by=person(by), say=tell)))
            return
        show(*_all_served(loaded, group_switch.promote_group(loaded, by=person(by), say=tell)))


@_generation.command()
def rollback(pipelines: Pipelines, by: By = None, as_json: AsJson = False) -> None:
    """Let readers see the previous generation again; its live stream resumes.

    Of several pipelines that were promoted together all are rolled back, or none.
    """
    with answer(as_json) as show, sigterm_interrupts():
        from hybrid_extensions.generations.switch import group_switch, promotion

        loaded = _loaded(pipelines)
        if len(loaded) == 1:
            show(*_served(promotion.roll_back(loaded[0], by=person(by), say=tell)))
            return
        show(*_all_served(loaded, group_switch.roll_back_group(loaded, by=person(by), say=tell)))


@_generation.command()
def finish(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Finish an interrupted promotion or rollback; the supervision does it by itself.

    One of several pipelines is finished in all of them.
    """
    with answer(as_json) as show, sigterm_interrupts():
        from hybrid_extensions.generations.switch import promotion
        from sources.serving import read_serving

        loaded = load(pipeline)
        promotion.finish(loaded, say=tell)
        show(*_served(read_serving(loaded)))


@_generation.command()
def abort(pipeline: PipelineFile, by: By = None, as_json: AsJson = False) -> None:
    """Give up a promotion or rollback that was begun, until its commit; `list` shows who serves.

    Of several pipelines: until all tables are changed; those that are changed are changed back.
    """
    with answer(as_json) as show, sigterm_interrupts():
        from hybrid_extensions.generations.switch import promotion
        from sources.serving import read_serving

        loaded = load(pipeline)
        switch = promotion.abort(loaded, by=person(by), say=tell)
        serving = read_serving(loaded).generation
        text = f"No promotion or rollback is under way. Generation {serving} serves."
        if switch is not None:
            text = (
                f"The {switch.kind} of generation {switch.to} is given up. Generation {serving} "
                "serves as before; live runs that were requested are started again."
            )
        aborted = None if switch is None else switch.to
        show({"ok": True, "aborted": aborted, "serving": serving}, text)


@_generation.command()
def discard(pipeline: PipelineFile, by: By = None, as_json: AsJson = False) -> None:
    """Stop and remove the newest generation, which was never promoted, with its table.

    One that serves or has served is refused.
    """
    with answer(as_json) as show:
        from hybrid_extensions.generations.lifecycle import discard as remove

        name = remove(load(pipeline), person(by))
        show({"ok": True, "discarded": name}, f"Generation {name} is removed.")


@app.command(rich_help_panel=panels.TABLE)
def rerun(
    pipeline: PipelineFile,
    promote: Annotated[bool, typer.Option(help="Promote it if it passes.")] = True,
    rows_at_least: Annotated[
        float,
        typer.Option(help="Its rows divided by those of the serving table, at least.", min=0),
    ] = 0.99,
    audit: Annotated[
        bool | None,
        typer.Option(help="Audit it once it is computed; by default if `audit` is declared."),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the whole table as a new generation, then let readers see it.

    The old table serves until the new one has caught up, has enough rows, and no audit that is
    declared has failed.
    """
    with answer(as_json) as show, sigterm_interrupts():
        from hybrid_extensions.generations.lifecycle import rerun as recompute

        served = recompute(
            load(pipeline),
            promote=promote,
            rows_at_least=rows_at_least,
            is_audited=audit,
            say=tell,
            by=person(by),
        )
        document = {"ok": True, "serving": served.generation}
        text = f"Readers see generation {served.generation}."
        if not promote:
            text += (
                " The new one waits: `hybrid generation compare P` compares both, `hybrid "
                "generation promote P` lets readers see it."
            )
        show(document, text)


def _loaded(pipelines: list[Path]) -> list[LoadedPipeline]:
    """Load the pipelines, each once; ways out in messages name the first one."""
    shell_remedies.name(pipelines[0])
    return [load(path) for path in dict.fromkeys(pipelines)]


def _all_served(
    pipelines: list[LoadedPipeline], served: list[Serving]
) -> tuple[dict[str, Any], str]:
    from orchestration.remedies import Remedy

    documents = [_served(each)[0] for each in served]
    texts = [
        f"{each.pipeline.name}: readers see generation {serving.generation}."
        for each, serving in zip(pipelines, served, strict=True)
    ]
    if all(each.before for each in served):
        first, *others = [str(each.path) for each in pipelines]
        back = Remedy("generation rollback", tuple(others)).command(first)
        texts.append(f"{back} goes back in all of them.")
    return {"ok": True, "served": documents}, " ".join(texts)


def _served(serving: Serving) -> tuple[dict[str, Any], str]:
    before = [each.generation for each in serving.before]
    back = f"; `hybrid generation rollback P` returns to {before[-1]}" if before else ""
    text = f"Readers see generation {serving.generation}{back}."
    document = {"serving": serving.generation, "before": before, "by": serving.by}
    return {"ok": True, **document}, text


app.add_typer(_generation, name="generation", rich_help_panel=panels.TABLE)
