"""The candidate of a pipeline: the generation that was begun and not promoted yet."""

from __future__ import annotations

from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.serving import candidate_name


def require_candidate(loaded: LoadedPipeline, hint: str) -> str:
    """Return the name of the candidate; refuse a pipeline without one.

    Args:
        loaded: The pipeline.
        hint: What people can do if there is no candidate; becomes the hint of the error.

    Raises:
        StateError: There is no generation yet, or the newest one serves or has served.
        UnavailableError: The state's store does not answer.
    """
    if (name := candidate_name(loaded)) is None:
        message = (
            f"Pipeline `{loaded.pipeline.name}` has no candidate: no generation was begun that was "
            "not promoted yet."
        )
        raise StateError(message, hint, pipeline=loaded.pipeline.name)
    return name
