"""The generation whose rows are taken, with the definition that was kept for it."""

from __future__ import annotations

from sources.config.loader import LoadedPipeline
from sources.kept_definitions import kept_declaration
from sources.planning.context import PipelineContext
from sources.state.generation import read_generation


def kept_context(loaded: LoadedPipeline, generation: str) -> PipelineContext:
    """Return a generation with the definition that was kept for it.

    Args:
        loaded: The pipeline.
        generation: Name of the generation whose rows are taken.

    Raises:
        StateError: The generation is gone, or its kept definition is.
        InputError: Its kept definition is not valid any more.
    """
    kept = kept_declaration(loaded, generation)
    return PipelineContext(kept, read_generation(loaded.state, generation))
