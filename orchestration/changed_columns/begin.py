"""Begin and plan of a generation that computes only the columns that its transform changes."""

from __future__ import annotations

from sources import generations
from sources.changed_columns.documents import (
    ChangedColumns,
    PinnedVersion,
    is_unfinished,
    read_changed_columns,
)
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.kept_definitions import is_kept
from sources.serving import newest, read_serving
from sources.state.generation import IDENTITY, Generation, read_generation
from spark_jobs.changed_columns.fitness import not_fit
from spark_jobs.changed_columns.kept import kept_context
from spark_jobs.changed_columns.question import ask_difference
from spark_jobs.changed_columns.state import copy_plan
from spark_jobs.launch.questions.spark_process import SparkProcess


def begin_changed_columns(loaded: LoadedPipeline, by: str | None = None) -> Generation:
    """Begin a generation that takes the serving one's rows, and computes only what has changed.

    Nothing runs yet. A generation that was begun for the same, and has not read anything, is
    returned as it is.

    Args:
        loaded: The pipeline.
        by: Who begins it; None if unknown.

    Returns:
        The generation; :func:`sources.changed_columns.documents.read_changed_columns` returns what
        it computes.

    Raises:
        StateError: The serving rows can't be taken, nothing has changed, or a newer generation
            waits; nothing was begun.
        InputError: The transforms can't be compared, or a changed column needs what the table does
            not have; nothing was begun.
    """
    name = read_serving(loaded).generation
    if not loaded.state.exists(f"{name}/{IDENTITY}") or not is_kept(loaded, name):
        raise not_fit(name, "it has not run yet")
    serving = kept_context(loaded, name)
    with SparkProcess(loaded) as process:
        difference = ask_difference(loaded, serving, process)
    made = ChangedColumns(of=name, first=loaded.pipeline.sources[0].name, difference=difference)
    generation = generations.begin(loaded, by)
    if generation.exists("plan.json") and read_changed_columns(generation) is None:
        message = (
            f"Generation {generation.name} was planned to compute all columns, and "
            "waits for its run."
        )
        hint = "Discard it first: `hybrid generation discard P`. Nothing was changed."
        raise StateError(message, hint, generation=generation.name)
    generation.replace(ChangedColumns.NAME, made)
    copy_plan(serving.generation, generation)
    return generation


def plan_changed_columns(
    loaded: LoadedPipeline, process: SparkProcess, *, is_outdated: bool
) -> None:
    """Compare the transforms of the newest generation again, if it computes only changed columns.

    It follows the transform as it is now, until its rows are pinned. Nothing is done for any other
    generation.

    Args:
        loaded: The pipeline.
        process: The Spark process that is asked.
        is_outdated: Whether its plan would be made again, since another declaration made it.

    Raises:
        StateError: More than the transform was changed, or the serving rows can't be taken any
            more.
        InputError: The transforms can't be compared, or a changed column needs what the table does
            not have.
    """
    name = newest(loaded)
    if loaded.kept is not None or name is None or not loaded.state.exists(f"{name}/{IDENTITY}"):
        return
    generation = read_generation(loaded.state, name)
    made = read_changed_columns(generation)
    if made is None or not is_unfinished(generation):
        return
    if is_outdated:
        message = (
            f"Generation {name} was begun to compute only changed columns, but by now more than "
            "the transform has changed in the declaration. Nothing was changed."
        )
        hint = (
            "Undo that change; or discard the generation (`hybrid generation discard P`) and begin "
            "one that computes all columns: `hybrid generation new P`."
        )
        raise StateError(message, hint, generation=name)
    serving = kept_context(loaded, made.of)
    if not generation.exists(PinnedVersion.NAME):
        difference = ask_difference(loaded, serving, process)
        if difference != made.difference:
            changes = {"difference": difference}
            generation.replace(ChangedColumns.NAME, made.model_copy(update=changes))
    if not generation.exists("plan.json"):
        copy_plan(serving.generation, generation)
