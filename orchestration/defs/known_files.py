"""Pipelines' files as a code location has loaded them, for the processes of its Dagster runs.

Such a process loads all definitions again. Without those of a file that is invalid or gone since,
it would not know the job or asset that it is to run, and fail with Dagster's stack trace. With them
each step reads the file itself, and fails with what is wrong with it.
"""

from __future__ import annotations

from pathlib import Path

from dagster._core.definitions.definitions_load_context import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
)

from sources.config.loader import LoadedPipeline, load_earlier, load_pipeline
from sources.errors import InputError

_KEY = "hybrid:"


def files_before() -> list[Path]:
    """Return the pipelines' files that the code location has loaded; none but in a Dagster run."""
    context = DefinitionsLoadContext.get()
    is_run = context.load_type is DefinitionsLoadType.RECONSTRUCTION
    keys = context.reconstruction_metadata if is_run else ()
    return [Path(key.removeprefix(_KEY)) for key in keys if key.startswith(_KEY)]


def load_known(file: Path) -> LoadedPipeline:
    """Load a pipeline's file for its definitions.

    In the process of a Dagster run a file that can't be loaded any more is as it was when the code
    location was loaded; Dagster keeps its text with the run's plan.

    Args:
        file: The YAML file, absolute.

    Raises:
        InputError, StateError: As :func:`~sources.config.loader.load_pipeline` raises them.
    """
    context, key = DefinitionsLoadContext.get(), f"{_KEY}{file}"
    try:
        loaded, text = load_pipeline(file), file.read_text()
    except InputError:
        if file not in files_before():
            raise
        text = context.reconstruction_metadata[key]
        loaded = load_earlier(file, text)
    context.add_to_pending_reconstruction_metadata(key, text)
    return loaded
