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
    """A generation that readers saw earlier.

    Attributes:
        generation: Its name.
        version: Version of the target that holds its last rows.
        until_ms: When another one replaced it.
    """

    generation: str
    version: int
    until_ms: int


class Serving(Record):
    """The generation whose rows the target holds, and those before it.

    Attributes:
        generation: Name of the serving generation.
        before: The generations that served before, each once, the latest at the end.
    """

    generation: str
    before: list[Served] = Field(default_factory=list)

    def served(self, generation: str) -> Served | None:
        """Return the record of a generation that served before; None if it never did, or serves."""
        return next((each for each in self.before if each.generation == generation), None)


class Switch(Record):
    """A promotion or rollback under way: written before its first step, removed after its last.

    Attributes:
        to: The generation that is to serve.
        past: The one that served.
        at_ms: When it was requested.
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
    """Return the promotion or rollback that is under way; None if there is none."""
    return Folder(loaded.state).read(Switch.NAME, Switch)


def read_serving(loaded: LoadedPipeline) -> Serving:
    """Return which generation serves: the first one, until another one is promoted."""
    return Folder(loaded.state).read(_SERVING, Serving) or Serving(generation=_FIRST)


def write_serving(loaded: LoadedPipeline, serving: Serving) -> None:
    """Record which generation serves."""
    Folder(loaded.state).replace(_SERVING, serving)


def generations(loaded: LoadedPipeline) -> list[Generation]:
    """Return all existing generations, the oldest first."""
    names = [path.name for path in loaded.state.glob("g*") if _NAME.fullmatch(path.name)]
    names.sort(key=lambda name: int(name[1:]))
    return [
        read_generation(loaded.state, name)
        for name in names
        if (loaded.state / name / "generation.json").exists()
    ]


def newest(loaded: LoadedPipeline) -> str | None:
    """Return the name of the newest generation, which the pipeline's own file declares; or None."""
    current = Folder(loaded.state).read(CURRENT, CurrentGeneration)
    return None if current is None else current.generation


def waiting(loaded: LoadedPipeline) -> str | None:
    """Return the name of the newest generation while it waits for its promotion; else None."""
    serving, name = read_serving(loaded), newest(loaded)
    serves = name is None or name == serving.generation or serving.served(name) is not None
    return None if serves else name


def require_waiting(loaded: LoadedPipeline, hint: str) -> str:
    """Return the name of the generation that waits for its promotion.

    Args:
        loaded: The pipeline.
        hint: What to do if none waits.

    Raises:
        StateError: None waits.
    """
    if (name := waiting(loaded)) is None:
        message = f"Pipeline `{loaded.pipeline.name}` has no generation that waits for promotion."
        raise StateError(message, hint, pipeline=loaded.pipeline.name)
    return name


def target_of(loaded: LoadedPipeline, generation: str | None = None) -> str:
    """Return the folder of the table that a generation writes to.

    Args:
        loaded: The pipeline.
        generation: Its name; the generation of this declaration, if left out.
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
    """Return the folder of the table that a later generation has until it is promoted."""
    return f"{loaded.locate(loaded.pipeline.sink.path).rstrip('/')}.{generation}"


def require_in_service(loaded: LoadedPipeline, generation: Generation) -> None:
    """Refuse to run a generation that another one has replaced in the target, or is replacing.

    Raises:
        StateError: Another one serves in its place, or a promotion or rollback is under way.
    """
    name = loaded.pipeline.name
    if (switch := pending_switch(loaded)) is not None:
        message = f"Generation {switch.to} of `{name}` is replacing {switch.past} in the target."
        hint = "Wait for it. If it was interrupted, run `hybrid generation finish`."
        raise StateError(message, hint, transient=True, pipeline=name, generation=switch.to)
    serving = read_serving(loaded)
    if serving.served(generation.name) is not None:
        message = (
            f"Generation {generation.name} of pipeline `{name}` no longer serves: "
            f"{serving.generation} replaced it."
        )
        hint = "Return to it with `hybrid generation rollback`, or begin a new one."
        raise StateError(message, hint, pipeline=name, generation=generation.name)


def begin(loaded: LoadedPipeline) -> Generation:
    """Begin a new generation with the declaration as it is now; nothing runs yet.

    A generation that was begun but not planned yet adopts the declaration as it is now. The serving
    generation continues with the definition that was kept when it was last started.

    Raises:
        StateError: The pipeline has not run yet, or a newer generation already waits for its
            promotion.
    """
    serving = read_serving(loaded)
    name = newest(loaded)
    if name is None or not kept_file(loaded, serving.generation).exists():
        message = f"Pipeline `{loaded.pipeline.name}` has not run yet."
        hint = "Run it with `hybrid run`: that begins the first generation."
        raise StateError(message, hint, pipeline=loaded.pipeline.name)
    if waiting(loaded) is not None:
        begun = read_generation(loaded.state, name)
        if begun.read_bytes("plan.json") is None:
            # It has done nothing yet, so it can adopt the declaration as it is now.
            info = begun.info.model_copy(update={"contract": digests(loaded.contract())})
            begun.replace("generation.json", info)
            return Generation(begun.root, info)
        message = f"Generation {name} of pipeline `{loaded.pipeline.name}` was begun already."
        hint = "Run it and promote it, or remove it with `hybrid generation discard`."
        raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=name)
    # Never reuse a name: a folder that could not be removed keeps its own.
    used = [int(path.name[1:]) for path in loaded.state.glob("g*") if _NAME.fullmatch(path.name)]
    made = make_generation(loaded.state, f"g{max(used) + 1}", loaded.contract())
    Folder(loaded.state).replace(CURRENT, CurrentGeneration(generation=made.name))
    return made


def discard(loaded: LoadedPipeline) -> str:
    """Remove the newest generation, which was never promoted, with its table; return its name.

    Its runs have to be stopped before.

    Raises:
        StateError: The newest generation serves, or has served.
    """
    hint = "To remove the serving one, delete the pipeline's state folder and its table."
    name = require_waiting(loaded, hint)
    # First of all, so that no process continues what is about to be removed.
    last = CurrentGeneration(generation=read_serving(loaded).generation)
    Folder(loaded.state).replace(CURRENT, last)
    remove(loaded, name)
    return name


def remove(loaded: LoadedPipeline, generation: str) -> None:
    """Remove a generation's state, and its own table if it has one."""
    shutil.rmtree(own_table(loaded, generation), ignore_errors=True)
    shutil.rmtree(loaded.state / generation, ignore_errors=True)


def keep_definition(loaded: LoadedPipeline, generation: Generation) -> None:
    """Copy what a generation runs by to its state, so that later changes do not affect it.

    That is the pipeline's file, which contains no secret, and the modules of its functions if they
    are next to it. Other modules that they import are used as they are installed.
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
    """Return the path of the copy of the pipeline's file that was kept for a generation."""
    return loaded.state / generation / _FOLDER / loaded.path.name


def in_service(loaded: LoadedPipeline) -> list[LoadedPipeline]:
    """Return the declarations of the generations that may run: newest, and serving if older."""
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
