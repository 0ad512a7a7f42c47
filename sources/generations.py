"""Generations of a pipeline side by side: which one readers see, and where each one's rows go.

The first generation writes to the target itself. A later one has a table of its own beside it
until it is promoted: then the target holds its rows, and its runs go on there.
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
    """A generation that readers saw before.

    Attributes:
        generation: Its name.
        version: Version of the target that holds its last rows.
        until_ms: When another one took its place.
    """

    generation: str
    version: int
    until_ms: int


class Serving(Record):
    """Which generation's rows the target holds.

    Attributes:
        generation: Its name.
        before: Those that the target held before, each once, the last one at the end.
    """

    generation: str
    before: list[Served] = Field(default_factory=list)

    def served(self, generation: str) -> Served | None:
        """What is known of a generation that served before and does no more."""
        return next((each for each in self.before if each.generation == generation), None)


class Switch(Record):
    """A change of the generation that serves, from before its first step to after its last.

    Attributes:
        to: The generation that is to serve.
        past: The one that served.
        at_ms: When it was asked for.
        is_rollback: Whether ``to`` served before.
        target_version: The version of the target that holds the last rows of ``past``; None until
            its runs are ended.
    """

    NAME: ClassVar = "switch.json"

    to: str
    past: str
    at_ms: int
    is_rollback: bool
    target_version: int | None = None


def pending_switch(loaded: LoadedPipeline) -> Switch | None:
    """The promotion or rollback that is under way, if one is."""
    return Folder(loaded.state).read(Switch.NAME, Switch)


def read_serving(loaded: LoadedPipeline) -> Serving:
    """Which generation serves: the first one, until another one is promoted."""
    return Folder(loaded.state).read(_SERVING, Serving) or Serving(generation=_FIRST)


def write_serving(loaded: LoadedPipeline, serving: Serving) -> None:
    """Write down which generation serves."""
    Folder(loaded.state).replace(_SERVING, serving)


def generations(loaded: LoadedPipeline) -> list[Generation]:
    """All generations that are there, the oldest first."""
    names = [path.name for path in loaded.state.glob("g*") if _NAME.fullmatch(path.name)]
    names.sort(key=lambda name: int(name[1:]))
    return [
        read_generation(loaded.state, name)
        for name in names
        if (loaded.state / name / "generation.json").exists()
    ]


def newest(loaded: LoadedPipeline) -> str | None:
    """Name of the generation that the pipeline's own file is about; None before the first."""
    current = Folder(loaded.state).read(CURRENT, CurrentGeneration)
    return None if current is None else current.generation


def waiting(loaded: LoadedPipeline) -> str | None:
    """Name of the newest generation while it waits for its promotion; else None."""
    serving, name = read_serving(loaded), newest(loaded)
    serves = name is None or name == serving.generation or serving.served(name) is not None
    return None if serves else name


def require_waiting(loaded: LoadedPipeline, way_out: str) -> str:
    """Name of the generation that waits for its promotion.

    Raises:
        StateError: None does.
    """
    if (name := waiting(loaded)) is None:
        message = f"Pipeline `{loaded.pipeline.name}` has no generation that waits for promotion."
        raise StateError(message, way_out)
    return name


def target_of(loaded: LoadedPipeline, generation: str | None = None) -> str:
    """Folder of the table to which a generation's rows go.

    Args:
        loaded: The pipeline.
        generation: Its name; the one that the declaration is about, if left out.
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
    """Folder of the table that a later generation has until it is promoted."""
    return f"{loaded.locate(loaded.pipeline.sink.path).rstrip('/')}.{generation}"


def require_in_service(loaded: LoadedPipeline, generation: Generation) -> None:
    """Refuse to run a generation whose place in the target another one has taken, or takes.

    Raises:
        StateError: It has, or does.
    """
    if (switch := pending_switch(loaded)) is not None:
        message = f"Generation {switch.to} of `{loaded.pipeline.name}` is taking the target over."
        raise StateError(message, "If that broke off: `hybrid generation finish`.")
    serving = read_serving(loaded)
    if serving.served(generation.name) is not None:
        message = (
            f"Generation {generation.name} of pipeline `{loaded.pipeline.name}` serves no more: "
            f"{serving.generation} took its place."
        )
        hint = "Go back to it with `hybrid generation rollback`, or begin a new one."
        raise StateError(message, hint)


def begin(loaded: LoadedPipeline) -> Generation:
    """Begin a new generation, under the declaration as it is now; nothing runs yet.

    One that was begun and not planned takes the declaration over as it is now.
    The generation that serves goes on by the definition that was kept when it was last started.

    Raises:
        StateError: There is none yet, or one that has not run; or a newer one waits for its
            promotion already.
    """
    serving = read_serving(loaded)
    name = newest(loaded)
    if name is None or not kept_file(loaded, serving.generation).exists():
        message = f"Pipeline `{loaded.pipeline.name}` has not run yet."
        raise StateError(message, "Run it: the first generation needs no beginning.")
    if waiting(loaded) is not None:
        begun = read_generation(loaded.state, name)
        if begun.read_bytes("plan.json") is None:
            # Nothing was done by it yet: it takes the declaration as it is now.
            info = begun.info.model_copy(update={"contract": digests(loaded.contract())})
            begun.replace("generation.json", info)
            return Generation(begun.root, info)
        message = f"Generation {name} of pipeline `{loaded.pipeline.name}` was begun already."
        hint = "Run it and promote it, or remove it with `hybrid generation discard`."
        raise StateError(message, hint)
    # Never a name that was used: a folder that could not be removed keeps its own.
    taken = [int(path.name[1:]) for path in loaded.state.glob("g*") if _NAME.fullmatch(path.name)]
    made = make_generation(loaded.state, f"g{max(taken) + 1}", loaded.contract())
    Folder(loaded.state).replace(CURRENT, CurrentGeneration(generation=made.name))
    return made


def discard(loaded: LoadedPipeline) -> str:
    """Remove the newest generation, which was never promoted, and its table; returns its name.

    What runs for it has to be ended before.

    Raises:
        StateError: The newest one serves, or has served.
    """
    way_out = "The one that serves is removed with its folder and its table."
    name = require_waiting(loaded, way_out)
    # First of all, so that nobody takes up what is about to go.
    last = CurrentGeneration(generation=read_serving(loaded).generation)
    Folder(loaded.state).replace(CURRENT, last)
    remove(loaded, name)
    return name


def remove(loaded: LoadedPipeline, generation: str) -> None:
    """Remove a generation's state, and the table that it had of its own."""
    shutil.rmtree(own_table(loaded, generation), ignore_errors=True)
    shutil.rmtree(loaded.state / generation, ignore_errors=True)


def keep_definition(loaded: LoadedPipeline, generation: Generation) -> None:
    """Keep what a generation is run by, so that it goes on when the originals change.

    The pipeline's file, which holds no secret, and the modules of its functions as far as they lie
    beside it. What else they import is taken as it is installed.
    """
    if loaded.kept is not None:
        return
    for path in [loaded.path, *_modules(loaded)]:
        copy = f"{_FOLDER}/{path.relative_to(loaded.folder)}"
        # Whole or not at all: a driver may be reading it.
        if generation.read_bytes(copy) != path.read_bytes():
            generation.replace_bytes(copy, path.read_bytes())
    kept = KeptDefinition(generation=generation.name, home=str(loaded.folder))
    if generation.read(f"{_FOLDER}/{KEPT}", KeptDefinition) != kept:
        generation.replace(f"{_FOLDER}/{KEPT}", kept)


def kept_file(loaded: LoadedPipeline, generation: str) -> Path:
    """The pipeline's file as it was kept for a generation."""
    return loaded.state / generation / _FOLDER / loaded.path.name


def in_service(loaded: LoadedPipeline) -> list[LoadedPipeline]:
    """The declarations by which a pipeline's generations may run: newest, and serving if older."""
    serving = read_serving(loaded).generation
    if newest(loaded) in (None, serving) or not kept_file(loaded, serving).exists():
        return [loaded]
    return [loaded, load_pipeline(kept_file(loaded, serving))]


def _modules(loaded: LoadedPipeline) -> list[Path]:
    """Files of the modules beside a pipeline's file that its functions need; none is run."""
    pipeline = loaded.pipeline
    named = [pipeline.transform]
    for source in pipeline.topics:
        if (factory := getattr(source.start, "factory", None)) is not None:
            named.append(factory)
    finder = ModuleFinder(path=[str(loaded.folder)])
    for name in named:
        try:
            finder.import_hook(name.partition(":")[0])
        except ImportError:
            # Not beside the file: it is installed.
            continue
    found = (getattr(module, "__file__", None) for module in finder.modules.values())
    files = {Path(file) for file in found if file is not None}
    return sorted(file for file in files if file.is_relative_to(loaded.folder))
