"""Change of a source's rate limit, which overrides the declared one and an active run adopts."""

from __future__ import annotations

from sources.config.loader import LoadedPipeline
from sources.config.source.rate_limit import RateLimit, put_in_force, rate_of
from sources.errors import InputError
from sources.state.action_log import recorded


def change_rate(loaded: LoadedPipeline, source: str, limit: RateLimit, by: str = "") -> None:
    """Change a source's rate limit, and enter it in the log of actions.

    An active run adopts it by itself. It overrides the declared limit in the newest generation
    alone.

    Args:
        loaded: The pipeline.
        source: Name of the source.
        limit: Numbers per second. What it leaves out is unlimited from then on, whatever the
            pipeline's file declares.
        by: Who asked for it; empty if unknown.

    Raises:
        InputError: There is no such source, or the limit has no meaning for its kind, such as
            ``offsets`` for files.
        StateError: Nothing was planned yet.
        UnavailableError: The state's store does not answer.
    """
    names = [each.name for each in loaded.pipeline.sources]
    if source not in names:
        message = f"Pipeline `{loaded.pipeline.name}` has no source `{source}`."
        hint = f"Name one of its sources: {', '.join(names)}. No limit was changed."
        raise InputError(message, hint, pipeline=loaded.pipeline.name, source=source)
    declared = loaded.pipeline.source(source)
    declared.check_rate(limit)
    generation = loaded.require_generation()
    name = f"rate of {source}"
    before = {name: rate_of(generation, source, declared.rate).in_words}
    with recorded(loaded.state, "rate", by, generation.name, before) as after:
        put_in_force(generation, source, limit)
        after[name] = limit.in_words
