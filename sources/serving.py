"""The serving generation, whose rows readers see, and the table that each generation writes to.

The first generation writes to the target itself. A later one has a table of its own next to it
until it is promoted: then the target holds its rows, and its runs continue there.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.state.generation import CURRENT, CurrentGeneration, Generation
from sources.storage.folder import Folder
from sources.storage.tables import delta_log

OWNER = delta_log.OWNER
"""Property of a table: the transaction id of the generation that writes to it."""
_SERVING = "serving.json"
GENERATIONS = "_generations"
"""Folder of a target in a store without links, with the files of later generations' tables.

Delta's VACUUM leaves alone what begins with ``_``.
"""
FIRST = "g1"
"""Name of the first generation, which writes to the target itself."""


class Served(Part):
    """Record of a generation that served earlier and can be rolled back to.

    Attributes:
        generation: Name of the generation.
        version: Version of the target's Delta table that holds its last rows.
        until_ms: When another generation replaced it, in Unix milliseconds.
        by: Who had let readers see it, as given; None if no name was given, and for the first one.
    """

    generation: str
    version: int
    until_ms: int
    by: str | None = None


class Serving(Record):
    """Record of the serving generation, whose rows the target holds, and of its predecessors.

    Attributes:
        generation: Name of the serving generation.
        before: The generations that served before and are kept, each once, the latest at the end.
        by: Who let readers see it, by a promotion or rollback, as given; None if no name was given,
            and for the first one.
        together: Files of the pipelines whose serving generations were changed together with this
            one's, all or none; empty if it was changed alone.
    """

    generation: str
    before: list[Served] = Field(default_factory=list)
    by: str | None = None
    together: list[str] = Field(default_factory=list)

    def served(self, generation: str) -> Served | None:
        """Return the record of a generation that served before.

        Args:
            generation: Name of the generation.

        Returns:
            The record; None if the generation never served, or serves now.
        """
        return next((each for each in self.before if each.generation == generation), None)

    def ever_served(self, generation: str) -> bool:
        """Return whether a generation serves or has served, so that it is kept."""
        return generation == self.generation or self.served(generation) is not None


class Switch(Record):
    """Promotion or rollback in progress: written before its first step, removed after its last.

    Attributes:
        to: Name of the generation that is to serve.
        past: Name of the generation that serves until the switch is done.
        at_ms: When the switch was requested, in Unix milliseconds.
        is_rollback: Whether ``to`` served before; if not, this is a promotion.
        target_version: Delta version of the target with the last rows of ``past``; None until the
            runs of ``past`` are stopped.
        is_first: Whether the target's Delta table was gone when the switch began, so that there is
            no earlier version to roll back to.
        by: Who requested it, as given; None if no name was given.
        action: Number of this switch in the log of actions; None in documents of older versions.
        group: File of the pipeline in whose state the group is recorded, of whose promotion or
            rollback this is a part; None if it is of this pipeline alone.
        source_version: Version of the candidate's table that replaces the target's; None for the
            newest one.
        aborts: How often it began to be given up, so that the document is another one than a
            process knows that was suspended before.
    """

    VERSION = 2
    NAME: ClassVar = "switch.json"

    to: str
    past: str
    at_ms: int
    is_rollback: bool
    target_version: int | None = None
    is_first: bool = False
    by: str | None = None
    action: int | None = None
    group: str | None = None
    source_version: int | None = None
    aborts: int = 0

    @property
    def kind(self) -> str:
        """``rollback`` or ``promotion``."""
        return "rollback" if self.is_rollback else "promotion"


def owner_properties(generation: Generation) -> dict[str, str]:
    """Return the table property that names a generation as the only one that writes to the table.

    A mapping of one entry: :data:`OWNER` to the generation's transaction id.
    """
    return {OWNER: generation.info.transaction_id}


def pending_switch(loaded: LoadedPipeline) -> Switch | None:
    """Return the promotion or rollback in progress; None if there is none.

    Raises:
        StateError: Its document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    return loaded.state.read(Switch.NAME, Switch)


def read_serving(loaded: LoadedPipeline) -> Serving:
    """Read which generation serves (readers see its rows): ``g1`` until another one is promoted.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    return loaded.state.read(_SERVING, Serving) or Serving(generation=FIRST)


def write_serving(loaded: LoadedPipeline, known: Serving, serving: Serving) -> bool:
    """Replace the record of which generation serves, that is, whose rows readers see.

    Writes the state only; the target's files are switched elsewhere.

    Args:
        loaded: The pipeline.
        known: The record as this process has read it (:func:`read_serving`).
        serving: The new one.

    Returns:
        Whether it was written; False if another process has written one since.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    if loaded.state.replace_known(_SERVING, known, serving):
        return True
    # Without a record the first generation serves.
    is_first = known == Serving(generation=FIRST)
    return is_first and loaded.state.replace_known(_SERVING, None, serving)


def newest_generation(loaded: LoadedPipeline) -> str | None:
    """Read the name of the generation begun last, such as ``g2``; None if there is none yet.

    The pipeline's own file declares this generation; older ones run by copies of that file.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    current = loaded.state.read(CURRENT, CurrentGeneration)
    return None if current is None else current.generation


def declared_generation(loaded: LoadedPipeline) -> str | None:
    """Return the name of the generation that a loaded declaration is about; None before the first.

    A copy that was kept for a generation is about that one, the pipeline's own file about the
    newest.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    kept = None if loaded.kept is None else loaded.kept.generation
    return kept or newest_generation(loaded)


def candidate_name(loaded: LoadedPipeline) -> str | None:
    """Return the name of the candidate: the newest generation, if it never served; else None.

    A candidate writes to a table of its own until its promotion. None also before the first
    generation.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    serving, name = read_serving(loaded), newest_generation(loaded)
    return None if name is None or serving.ever_served(name) else name


def is_replaced(loaded: LoadedPipeline, generation: str) -> bool:
    """Return whether a generation served earlier and another one serves now.

    Its runs may not write any more; it is kept so that readers can see it again.

    Args:
        loaded: The pipeline.
        generation: Name of the generation.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    serving = read_serving(loaded)
    return generation != serving.generation and serving.served(generation) is not None


def target_of(loaded: LoadedPipeline, generation: str | None = None) -> Folder:
    """Return the folder of the Delta table that a generation writes to.

    That is the target (``sink.path``) if the generation serves or has served, else a table of its
    own next to it. Before the first generation it is the target.

    Args:
        loaded: The pipeline.
        generation: Name of the generation; the one that this declaration is about, if left out.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    if generation is None:
        generation = declared_generation(loaded) or FIRST
    if read_serving(loaded).ever_served(generation):
        return loaded.target
    return own_table(loaded, generation)


def own_table(loaded: LoadedPipeline, generation: str) -> Folder:
    """Return the folder of the table that a generation writes to until its promotion.

    On a file system of this machine it is the path of the target with ``.<generation>`` at its end:
    a promotion links its files into the target. Elsewhere there are no links, so the folder is
    inside the target, where readers and VACUUM ignore it: a promotion refers to its files as they
    lie. It need not exist.

    Args:
        loaded: The pipeline.
        generation: Name of the generation; not ``g1``, which writes to the target itself.
    """
    target = loaded.target
    if target.is_local:
        return target.sibling(f".{generation}")
    return target.folder(f"{GENERATIONS}/{generation}")


def require_in_service(loaded: LoadedPipeline, generation: Generation) -> None:
    """Refuse to run a generation that another one has replaced, or is replacing.

    A candidate passes, unless a switch is under way.

    Raises:
        StateError: Another generation serves in its place, or a promotion or rollback is under
            way (transient).
        UnavailableError: The state's store does not answer.
    """
    name = loaded.pipeline.name
    if (switch := pending_switch(loaded)) is not None:
        word = switch.kind
        message = (
            f"Generation {switch.to} of `{name}` is replacing {switch.past} in the target: a "
            f"{word} is under way, and no run may write to the table meanwhile."
        )
        hint = (
            f"Wait until the {word} has ended; if it was interrupted, run `hybrid generation "
            "finish P`, or give it up with `hybrid generation abort P`. Then try again."
        )
        raise StateError(message, hint, transient=True, pipeline=name, generation=switch.to)
    serving = read_serving(loaded)
    if serving.served(generation.name) is not None:
        message = (
            f"Generation {generation.name} of pipeline `{name}` no longer serves: "
            f"{serving.generation} replaced it, so its runs may not write to the table any more."
        )
        hint = (
            f"To start the run of {serving.generation}, use `hybrid resume P`. Let readers see "
            "the previous generation again with `hybrid generation rollback P`, or compute the "
            "table with the declaration of today in a new one: `hybrid generation new P`."
        )
        raise StateError(message, hint, pipeline=name, generation=generation.name)


def generation_with_role(loaded: LoadedPipeline) -> str:
    """Return name and role of the generation that a declaration is about, in words, for messages.

    Such as ``g1, which serves``, ``g1, which served before`` or ``g2, the candidate``; ``none``
    before the first generation.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    name = declared_generation(loaded)
    if name is None:
        return "none"
    serving = read_serving(loaded)
    if name == serving.generation:
        return f"{name}, which serves"
    return f"{name}, which served before" if serving.served(name) else f"{name}, the candidate"
