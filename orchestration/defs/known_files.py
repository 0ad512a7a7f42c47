"""Pipelines' files as a code location has loaded them, for the processes of its Dagster runs.

Such a process loads all definitions again. Without those of a file that is invalid since, it would
not know the job or asset that it is to run, and fail with Dagster's stack trace. With them each
step reads the file itself, and fails with the field that is wrong.
"""

from __future__ import annotations

from pathlib import Path

from dagster._core.definitions.definitions_load_context import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
)

from sources.config.loader import LoadedPipeline, load_earlier, load_pipeline
from sources.errors import InputError


def load_known(file: Path) -> LoadedPipeline:
    """Load a pipeline's file for its definitions.

    In the process of a Dagster run a file that can't be loaded any more is as it was when the code
    location was loaded; Dagster keeps its text with the run's plan.

    Args:
        file: The YAML file, absolute.

    Raises:
        InputError, StateError: As :func:`~sources.config.loader.load_pipeline` raises them.
    """
    context, key = DefinitionsLoadContext.get(), f"hybrid:{file}"
    try:
        loaded, text = load_pipeline(file), file.read_text()
    except InputError:
        is_run = context.load_type is DefinitionsLoadType.RECONSTRUCTION
        if not is_run or key not in context.reconstruction_metadata:
            raise
        text = context.reconstruction_metadata[key]
        loaded = load_earlier(file, text)
    context.add_to_pending_reconstruction_metadata(key, text)
    return loaded
