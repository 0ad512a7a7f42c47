"""Definitions that are kept for generations, so that their runs do not follow later changes."""

from __future__ import annotations

from modulefinder import ModuleFinder
from pathlib import Path

from sources.common.state import Generation, digests, read_generation
from sources.config.loader import KEPT, KeptDefinition, LoadedPipeline, load_pipeline
from sources.errors import StateError
from sources.serving import newest, read_serving

_FOLDER = "definition"


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


def declaration_of(loaded: LoadedPipeline, generation: str) -> LoadedPipeline:
    """Return the declaration that a generation's runs go by.

    It is the pipeline's own file for the newest generation, as long as its checkpoint can follow
    the file; otherwise the copy that was kept when it last ran.

    Args:
        loaded: The pipeline.
        generation: Name of the generation.

    Raises:
        InputError: The kept copy is not valid, or needs an environment variable that is not set.
        StateError: The kept copy is missing, the state is damaged, or there is no such generation.
    """
    if loaded.kept is not None and loaded.kept.generation == generation:
        return loaded
    kept = kept_file(loaded, generation)
    if loaded.kept is None and newest(loaded) == generation:
        known = read_generation(loaded.state, generation).info.contract
        if known == digests(loaded.contract()) or not kept.exists():
            return loaded
    return _load_kept(loaded, generation)


def in_service(loaded: LoadedPipeline) -> list[LoadedPipeline]:
    """Return the declarations of the generations whose runs may write to a table now.

    Returns:
        The newest generation's; and, if an older one serves, its kept declaration.

    Raises:
        InputError: The kept declaration is not valid, or needs an environment variable that is
            not set.
        StateError: The kept declaration is missing, or the state is damaged.
    """
    serving = read_serving(loaded).generation
    if newest(loaded) in (None, serving):
        return [loaded]
    has_run = read_generation(loaded.state, serving).checkpoint.exists()
    if not (has_run or kept_file(loaded, serving).exists()):
        return [loaded]
    return [loaded, _load_kept(loaded, serving)]


def _load_kept(loaded: LoadedPipeline, generation: str) -> LoadedPipeline:
    """Load the copy of the pipeline's file that is kept for a generation.

    Raises:
        InputError: It is not valid, or needs an environment variable that is not set.
        StateError: It is missing, or the file next to it that tells where relative paths start; or
            the generation's state is.
    """
    # First of all: without its state, a copy of its declaration would not help.
    read_generation(loaded.state, generation)
    kept = kept_file(loaded, generation)
    origin = kept.with_name(KEPT)
    for path in (kept, origin):
        if path.exists():
            continue
        message = (
            f"State file {path} is missing: by it the runs of generation {generation} of pipeline "
            f"`{loaded.pipeline.name}` go."
        )
        made = KeptDefinition(generation=generation, home=str(loaded.folder))
        hint = f"Restore the file from a backup, or write it: `{made.model_dump_json()}`."
        if path == kept:
            hint = (
                f"Restore the folder {kept.parent} from a backup. Without one, copy the pipeline's "
                f"file and the modules of its functions there, as they were when {generation} ran."
            )
        raise StateError(message, hint, generation=generation, file=str(path))
    return load_pipeline(kept)


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
