"""What counts as a changed declaration: digests of it are kept, and compared with the present ones.

There are two answers, both by :func:`sources.state.generation.changed_parts`:

- After a change of :meth:`sources.config.loader.LoadedPipeline.contract` the checkpoint can't be
  continued: :func:`sources.state.generation.open_generation` refuses it.
- After a change of what :class:`PlannedBy` has besides, the plan is made again.

Of other fields the next run takes the present values; whether it may go on with a changed transform
is decided by ``spark_jobs.checkpoint.transform_compatibility``.
"""

from __future__ import annotations

from sources.common.state_document import Record
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.state.generation import Generation, changed_parts, digests

_NAME = "planned-by.json"
# What a plan depends on, besides the contract, which a checkpoint has to follow.
_OF_FILES = {"batch", "converge", "discovery_interval", "folder_time"}
_OF_TOPICS = {"bootstrap_servers", "on_gap", "start"}


class PlannedBy(Record):
    """Digests of the declaration that a plan was made from; contains none of its values.

    Attributes:
        parts: Digest by name of the part, such as ``sources.history``.
    """

    parts: dict[str, str]

    @classmethod
    def of(cls, loaded: LoadedPipeline) -> PlannedBy:
        """Compute digests of a pipeline's declared values, to find out later which have changed."""
        return cls(parts=digests(_parts(loaded)))


def _parts(loaded: LoadedPipeline) -> dict[str, object]:
    pipeline = loaded.pipeline
    parts: dict[str, object] = {"plan.event_time": pipeline.event_time.model_dump(mode="json")}
    for source in pipeline.sources:
        named = _OF_FILES if isinstance(source, FileSource) else _OF_TOPICS
        parts[f"plan.{source.name}"] = source.model_dump(mode="json", include=named)
    return {**loaded.contract(), **parts}


def keep_declaration(loaded: LoadedPipeline, generation: Generation) -> None:
    """Record digests of the declaration that the next plan of a generation is made from.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_NAME, PlannedBy.of(loaded))


def is_planned_by(loaded: LoadedPipeline, generation: Generation) -> bool:
    """Return whether this declaration made a generation's plan; if False, plan again.

    Without a record of the plan, the digests that the generation began with are compared.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    made = generation.read(_NAME, PlannedBy)
    if made is None:
        return not changed_parts(generation.info.contract, loaded.contract())
    return not changed_parts(made.parts, _parts(loaded))
