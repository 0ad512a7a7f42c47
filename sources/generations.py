"""Generations of a pipeline: which one readers see, and to which table each one writes.

The first generation writes to the target itself. A later one has a table of its own next to it
until it is promoted: then the target holds its rows, and its runs continue there.
"""

from __future__ import annotations

import re
import shutil
from modulefinder import ModuleFinder
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from sources.common.positions import Part, Record
from sources.common.state import (
    CURRENT,
    CurrentGeneration,
    Folder,
    Generation,
    digests,
    make_generation,
    read_generation,
)
from sources.config.loader import KEPT, KeptDefinition, LoadedPipeline, load_pipeline
from sources.errors import StateError

OWNER = "hybrid.generation"
"""Property of a table: the transaction id of the generation that writes to it."""
_SERVING = "serving.json"
_FIRST = "g1"
_NAME = re.compile(r"g(\d+)")
_FOLDER = "definition"


class Served(Part):
    """Record of a generation whose rows readers saw earlier, to which a rollback is possible.

    Attributes:
        generation: Name of the generation.
        version: Version of the target's Delta table that holds its last rows.
        until_ms: When another generation replaced it, in Unix milliseconds.
    """

    generation: str
    version: int
    until_ms: int


class Serving(Record):
    """Record of the generation whose rows the target holds now, and of those before it.

    Attributes:
        generation: Name of the serving generation.
        before: The generations that served before and are kept, each once, the latest at the end.
    """

    generation: str
    before: list[Served] = Field(default_factory=list)

    def served(self, generation: str) -> Served | None:
        """Return the record of a generation that served before.

        Args:
            generation: Name of the generation.

        Returns:
            The record; None if the generation never served, or serves now.
        """
        return next((each for each in self.before if each.generation == generation), None)


class Switch(Record):
    """A promotion or rollback under way: written before its first step, removed after its last.

    Attributes:
        to: Name of the generation that is to serve.
        past: Name of the generation that served until then.
        at_ms: When the switch was requested, in Unix milliseconds.
        is_rollback: Whether ``to`` served before.
        target_version: Version of the target with the last rows of ``past``; None until the runs
            of ``past`` are stopped.
    """

    NAME: ClassVar = "switch.json"

    to: str
    past: str
    at_ms: int
    is_rollback: bool
    target_version: int | None = None


def pending_switch(loaded: LoadedPipeline) -> Switch | None:
    """Read the promotion or rollback that is under way; None if there is none.

    Raises:
        StateError: Its document is damaged, or of another version.
    """
    return Folder(loaded.state).read(Switch.NAME, Switch)


def read_serving(loaded: LoadedPipeline) -> Serving:
    """Read which generation serves (readers see its rows): ``g1`` until another one is promoted.

    Raises:
        StateError: The document is damaged, or of another version.
    """
    return Folder(loaded.state).read(_SERVING, Serving) or Serving(generation=_FIRST)


def write_serving(loaded: LoadedPipeline, serving: Serving) -> None:
    """Record in the state which generation serves, that is, whose rows readers see.

    Raises:
        StateError: The state can't be written.
    """
    Folder(loaded.state).replace(_SERVING, serving)


def generations(loaded: LoadedPipeline) -> list[Generation]:
    """Read all generations of a pipeline from its state folder, the oldest first.

    Returns:
        The generations; empty if the pipeline was never planned or run.

    Raises:
        StateError: A generation's document is damaged, or of another version.
    """
    names = [path.name for path in loaded.state.glob("g*") if _NAME.fullmatch(path.name)]
    names.sort(key=lambda name: int(name[1:]))
    return [
        read_generation(loaded.state, name)
        for name in names
        if (loaded.state / name / "generation.json").exists()
    ]


def newest(loaded: LoadedPipeline) -> str | None:
    """Read the name of the newest generation; None if there is no generation yet.

    It is the one that the pipeline's own file declares; older ones run by copies of that file.

    Raises:
        StateError: The document is damaged, or of another version.
    """
    current = Folder(loaded.state).read(CURRENT, CurrentGeneration)
    return None if current is None else current.generation


def waiting(loaded: LoadedPipeline) -> str | None:
    """Return the name of the newest generation if it was never promoted; else None.

    Such a generation is a candidate: it writes to a table of its own until its promotion.

    Raises:
        StateError: The state is damaged.
    """
    serving, name = read_serving(loaded), newest(loaded)
    serves = name is None or name == serving.generation or serving.served(name) is not None
    return None if serves else name


def require_waiting(loaded: LoadedPipeline, hint: str) -> str:
    """Return the name of the generation that waits for its promotion.

    Args:
        loaded: The pipeline.
        hint: What to do if none waits; becomes the hint of the error.

    Raises:
        StateError: The newest generation serves or has served, or there is none.
    """
    if (name := waiting(loaded)) is None:
        message = f"Pipeline `{loaded.pipeline.name}` has no generation that waits for promotion."
        raise StateError(message, hint, pipeline=loaded.pipeline.name)
    return name


def target_of(loaded: LoadedPipeline, generation: str | None = None) -> str:
    """Return the folder or URL of the Delta table that a generation writes to.

    That is the target (``sink.path``) if the generation serves or has served, else a table of its
    own next to it.

    Args:
        loaded: The pipeline.
        generation: Name of the generation; the one that this declaration is about, if left out.

    Raises:
        StateError: The state is damaged.
    """
    if generation is None:
        kept = None if loaded.kept is None else loaded.kept.generation
        generation = kept or newest(loaded) or _FIRST
    target = loaded.locate(loaded.pipeline.sink.path)
    serving = read_serving(loaded)
    if generation == serving.generation or serving.served(generation) is not None:
        return target
    return own_table(loaded, generation)


def own_table(loaded: LoadedPipeline, generation: str) -> str:
    """Return the folder or URL of the table that a generation has until it is promoted.

    It is the path of the target with ``.<generation>`` at its end; it need not exist.

    Args:
        loaded: The pipeline.
        generation: Name of the generation; not ``g1``, which writes to the target itself.
    """
    return f"{loaded.locate(loaded.pipeline.sink.path).rstrip('/')}.{generation}"


def require_in_service(loaded: LoadedPipeline, generation: Generation) -> None:
    """Refuse to run a generation that another one has replaced in the target, or is replacing.

    Raises:
        StateError: Another generation serves in its place, or a promotion or rollback is under
            way (transient).
    """
    name = loaded.pipeline.name
    if (switch := pending_switch(loaded)) is not None:
        word = "rollback" if switch.is_rollback else "promotion"
        message = (
            f"Generation {switch.to} of `{name}` is replacing {switch.past} in the target: a "
            f"{word} is under way, and no run may write to the table meanwhile."
        )
        hint = (
            f"Wait until the {word} has ended; if it was interrupted, run `hybrid generation "
            "finish P`. Then repeat this command."
        )
        raise StateError(message, hint, transient=True, pipeline=name, generation=switch.to)
    serving = read_serving(loaded)
    if serving.served(generation.name) is not None:
        message = (
            f"Generation {generation.name} of pipeline `{name}` no longer serves: "
            f"{serving.generation} replaced it, so its runs may not write to the table any more."
        )
        hint = (
            "Let readers see it again with `hybrid generation rollback P`, or compute the table "
            "with the declaration of today in a new one: `hybrid generation new P`."
        )
        raise StateError(message, hint, pipeline=name, generation=generation.name)


def begin(loaded: LoadedPipeline) -> Generation:
    """Begin a new generation, a further computation of the whole table; nothing runs yet.

    It has the declaration as it is now.

    A generation that was begun but not planned yet adopts the declaration as it is now. The serving
    generation continues with the definition that was kept when it was last started.

    Returns:
        The new generation, or the one that was begun but not planned yet.

    Raises:
        StateError: The pipeline has not run yet, or a newer generation is planned and waits for
            its promotion; or the state can't be written.
    """
    serving = read_serving(loaded)
    name = newest(loaded)
    if name is None or not kept_file(loaded, serving.generation).exists():
        message = (
            f"Pipeline `{loaded.pipeline.name}` has not run yet, so it has no generation that a "
            "new one could replace."
        )
        hint = f"Run `hybrid run {loaded.path.name}`, which begins the first generation."
        raise StateError(message, hint, pipeline=loaded.pipeline.name)
    if waiting(loaded) is not None:
        begun = read_generation(loaded.state, name)
        if begun.read_bytes("plan.json") is None:
            # It has done nothing yet, so it can adopt the declaration as it is now.
            info = begun.info.model_copy(update={"contract": digests(loaded.contract())})
            begun.replace("generation.json", info)
            return Generation(begun.root, info)
        message = (
            f"Generation {name} of pipeline `{loaded.pipeline.name}` was begun already and waits "
            "for promotion; only one can wait."
        )
        file = loaded.path.name
        hint = (
            f"Run it and promote it (`hybrid run {file}`, `hybrid generation promote {file}`), or "
            f"remove it with its table: `hybrid generation discard {file}`."
        )
        raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=name)
    # Never reuse a name: a folder that could not be removed keeps its own.
    used = [int(path.name[1:]) for path in loaded.state.glob("g*") if _NAME.fullmatch(path.name)]
    made = make_generation(loaded.state, f"g{max(used) + 1}", loaded.contract())
    Folder(loaded.state).replace(CURRENT, CurrentGeneration(generation=made.name))
    return made


def discard(loaded: LoadedPipeline) -> str:
    """Remove the newest generation, which was never promoted, with its table; return its name.

    Its runs have to be stopped before: this function does not check that.

    Raises:
        StateError: The newest generation serves or has served, or there is none.
    """
    hint = (
        "Only a generation that was never promoted can be discarded. `hybrid generation list "
        f"{loaded.path.name}` shows all. To remove the serving one, stop the pipeline, then delete "
        f"{loaded.state} and the table; readers lose the table."
    )
    name = require_waiting(loaded, hint)
    # First of all, so that no process continues what is about to be removed.
    last = CurrentGeneration(generation=read_serving(loaded).generation)
    Folder(loaded.state).replace(CURRENT, last)
    remove(loaded, name)
    return name


def remove(loaded: LoadedPipeline, generation: str) -> None:
    """Remove a generation's state folder, and the table of its own if it has one.

    The target is left as it is. Errors are ignored: what can't be removed stays.

    Args:
        loaded: The pipeline.
        generation: Name of the generation; its runs must have ended.
    """
    shutil.rmtree(own_table(loaded, generation), ignore_errors=True)
    shutil.rmtree(loaded.state / generation, ignore_errors=True)


def keep_definition(loaded: LoadedPipeline, generation: Generation) -> None:
    """Copy a generation's definition to its state, so that later changes do not affect its runs.

    Copied are the pipeline's file, which contains no secret, and the modules of its functions if
    they are next to it. Other modules that they import are used as they are installed. Does
    nothing if ``loaded`` is such a copy itself.

    Raises:
        StateError: The state can't be written.
        OSError: The pipeline's file or a module can't be read.
    """
    if loaded.kept is not None:
        return
    for path in [loaded.path, *_modules(loaded)]:
        copy = f"{_FOLDER}/{path.relative_to(loaded.folder)}"
        # Written atomically: a driver may be reading it.
        if generation.read_bytes(copy) != path.read_bytes():
            generation.replace_bytes(copy, path.read_bytes())
    kept = KeptDefinition(generation=generation.name, home=str(loaded.folder))
    if generation.read(f"{_FOLDER}/{KEPT}", KeptDefinition) != kept:
        generation.replace(f"{_FOLDER}/{KEPT}", kept)


def kept_file(loaded: LoadedPipeline, generation: str) -> Path:
    """Return the path of the copy of the pipeline's file that is kept for a generation.

    It exists once the generation has run; until then the pipeline's own file applies.
    """
    return loaded.state / generation / _FOLDER / loaded.path.name


def in_service(loaded: LoadedPipeline) -> list[LoadedPipeline]:
    """Return the declarations of the generations whose runs may write to a table now.

    Returns:
        The newest generation's; and, if an older one serves, its kept declaration.

    Raises:
        InputError: The kept declaration is not valid, or needs an environment variable that is
            not set.
        StateError: The state is damaged.
    """
    serving = read_serving(loaded).generation
    if newest(loaded) in (None, serving) or not kept_file(loaded, serving).exists():
        return [loaded]
    return [loaded, load_pipeline(kept_file(loaded, serving))]


def _modules(loaded: LoadedPipeline) -> list[Path]:
    """Return the files next to a pipeline's file that its functions import; none is executed."""
    pipeline = loaded.pipeline
    named = [pipeline.transform]
    named += [name for source in pipeline.sources for name in source.functions.values()]
    finder = ModuleFinder(path=[str(loaded.folder)])
    for name in named:
        try:
            finder.import_hook(name.partition(":")[0])
        except ImportError:
            # Not next to the file, so it is an installed module.
            continue
    found = (getattr(module, "__file__", None) for module in finder.modules.values())
    files = {Path(file) for file in found if file is not None}
    return sorted(file for file in files if file.is_relative_to(loaded.folder))
