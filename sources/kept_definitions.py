"""Kept definitions: copies of a pipeline's file and code, which a generation's runs go by."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.machinery import PathFinder
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from sources.config.code.transform import FunctionTransform
from sources.config.document.yaml_document import KEPT
from sources.config.loader import KeptDefinition, LoadedPipeline, load_pipeline
from sources.errors import StateError
from sources.serving import newest_generation, read_serving
from sources.state.action_log import recorded
from sources.state.generation import Generation, changed_parts, read_generation
from sources.state.local_copy import local_copy
from sources.state.logged_changes import changes
from sources.storage.folder import Folder

_FOLDER = "definition"
# ModuleFinder's own number for it.
_PACKAGE = 5


def read_kept(generation: Generation) -> KeptDefinition | None:
    """Read what a generation keeps about its definition; None if it keeps none yet.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(f"{_FOLDER}/{KEPT}", KeptDefinition)


def keep_definition(loaded: LoadedPipeline, generation: Generation) -> Callable[[], None]:
    """Copy a generation's definition to its state, so that later changes do not affect its runs.

    The definition is the pipeline's file, which contains no secret, and the queries and modules of
    functions that lie in its folder; modules from elsewhere are used as they are installed. Only
    files that differ from the last copy are written, and a change is recorded in the log of
    actions. Does nothing if ``loaded`` is such a copy itself.

    Returns:
        A function that puts the last copy back, for a definition that does not run.

    Raises:
        StateError: The state can't be written, or is damaged.
        UnavailableError: The state's store does not answer.
        OSError: The pipeline's file or a module can't be read.
    """
    if loaded.kept is not None:
        return lambda: None
    copies, contents = {}, {}
    for path in [loaded.path, *code_of(loaded), *_audit_query(loaded)]:
        name, content = str(path.relative_to(loaded.folder)), path.read_bytes()
        if (copy := generation.read_bytes(f"{_FOLDER}/{name}")) != content:
            copies[name], contents[name] = copy, content
    before, now = changes(copies, contents)

    def write(before: Mapping[str, str], files: Mapping[str, bytes], now: dict[str, str]) -> None:
        with ExitStack() as stack:
            # What is kept for the first time changes nothing.
            if before:
                action = (loaded.state, "change of declaration", None, generation.name, before)
                stack.enter_context(recorded(*action)).update(now)
            for name, content in files.items():
                # Written atomically: a driver may be reading it.
                generation.replace_bytes(f"{_FOLDER}/{name}", content)

    write(before, contents, now)
    kept = KeptDefinition(generation=generation.name, home=str(loaded.folder))
    if read_kept(generation) != kept:
        generation.replace(f"{_FOLDER}/{KEPT}", kept)
    last = {name: copy for name, copy in copies.items() if copy is not None}
    return partial(write, now, last, before)


def changed_since(loaded: LoadedPipeline, generation: str) -> list[str]:
    """Return the files of a pipeline's definition that differ from a generation's copy of them.

    The audit's own query is not compared.

    Args:
        loaded: The pipeline.
        generation: Name of the generation.

    Returns:
        Paths relative to the pipeline's folder; empty if nothing differs, or if no definition is
        kept for the generation.

    Raises:
        OSError: A file can't be read.
    """
    if not is_kept(loaded, generation):
        return []
    kept = kept_folder(loaded, generation)
    files = {str(path.relative_to(loaded.folder)): path for path in [loaded.path, *code_of(loaded)]}
    return [name for name, path in files.items() if kept.read_bytes(name) != path.read_bytes()]


def kept_folder(loaded: LoadedPipeline, generation: str) -> Folder:
    """Return the folder in the state that keeps a generation's copy of the definition.

    It need not exist.

    Args:
        loaded: The pipeline.
        generation: Name of the generation.
    """
    return loaded.state.folder(generation).folder(_FOLDER)


def is_kept(loaded: LoadedPipeline, generation: str) -> bool:
    """Return whether a copy of the pipeline's file is kept for a generation.

    The copy is made when the generation is first run; until then the pipeline's own file applies.
    """
    return kept_folder(loaded, generation).exists(loaded.path.name)


def declaration_of(loaded: LoadedPipeline, generation: str) -> LoadedPipeline:
    """Return the declaration by which a generation's runs go.

    For the newest generation this is the pipeline's own file, as long as its checkpoint can follow
    the file; otherwise, and for every older generation, the copy kept when the generation last ran.

    Args:
        loaded: The pipeline.
        generation: Name of the generation.

    Raises:
        InputError: The kept copy is not valid, or needs an environment variable that is not set.
        StateError: The kept copy is missing, the state is damaged, or there is no such generation.
        UnavailableError: The state's store does not answer.
    """
    if loaded.kept is not None and loaded.kept.generation == generation:
        return loaded
    if loaded.kept is None and newest_generation(loaded) == generation:
        known = read_generation(loaded.state, generation).info.contract
        if not changed_parts(known, loaded.contract()) or not is_kept(loaded, generation):
            return loaded
    return kept_declaration(loaded, generation)


def in_service(loaded: LoadedPipeline) -> list[LoadedPipeline]:
    """Return the declarations of the generations whose runs may write to a table now.

    Returns:
        The newest generation's; and, if an older one serves, its kept declaration.

    Raises:
        InputError: The kept declaration is not valid, or needs an environment variable that is
            not set.
        StateError: The kept declaration is missing, or the state is damaged.
        UnavailableError: The state's store does not answer.
    """
    serving = read_serving(loaded).generation
    if newest_generation(loaded) in (None, serving):
        return [loaded]
    generation = read_generation(loaded.state, serving)
    # In this order: whether a checkpoint is empty takes a listing of all operators' state.
    if not is_kept(loaded, serving) and generation.checkpoint.is_empty():
        return [loaded]
    return [loaded, kept_declaration(loaded, serving)]


def kept_declaration(loaded: LoadedPipeline, generation: str) -> LoadedPipeline:
    """Load the declaration from the copy that was kept when a generation last started.

    From a store the copy is copied to the cache folder of this machine.

    Raises:
        InputError: The copy is not valid, or needs an environment variable that is not set.
        StateError: The copied file is missing; the document next to it is missing that says from
            where relative paths start; or the generation's state is missing or damaged.
        UnavailableError: The state's store does not answer.
    """
    # First of all: without its state, a copy of its declaration would not help.
    read_generation(loaded.state, generation)
    kept = kept_folder(loaded, generation)
    for name in (loaded.path.name, KEPT):
        if kept.exists(name):
            continue
        message = (
            f"State file {kept.location(name)} is missing. It contains the definition that runs "
            f"of generation {generation} of pipeline `{loaded.pipeline.name}` follow."
        )
        made = KeptDefinition(generation=generation, home=str(loaded.folder))
        hint = f"Restore the file from a backup, or write it: `{made.model_dump_json()}`."
        if name != KEPT:
            hint = (
                f"Restore the folder {kept} from a backup. Without one, copy the pipeline's file, "
                f"its query and the modules of its functions there, as they were when {generation} "
                "ran."
            )
        raise StateError(message, hint, generation=generation, file=kept.location(name))
    return load_pipeline(local_copy(kept) / loaded.path.name)


def which_file(loaded: LoadedPipeline) -> str:
    """Return a sentence that names the file to change if a declaration is a kept copy; else "".

    For hints of errors. Empty as well for a kept copy that is of no generation.
    """
    if loaded.kept is None or (generation := loaded.kept.generation) is None:
        return ""
    copy = kept_folder(loaded, generation).location(loaded.path.name)
    return (
        f"Generation {generation} goes by its copy of the pipeline's file and code: change {copy}, "
        "or the code beside it."
    )


def code_of(loaded: LoadedPipeline) -> list[Path]:
    """Return the paths of a pipeline's code files, sorted: its SQL query, and modules it imports.

    Only files in the pipeline's own folder, so that there may be none; no code is executed, and a
    module that can't be found is left out. For a kept copy these are the kept files, and others in
    the folder of the original.
    """
    pipeline = loaded.pipeline
    transform = pipeline.transform
    named = [name for source in pipeline.sources for name in source.functions.values()]
    queries: list[Path] = []
    if isinstance(transform, FunctionTransform):
        named.append(transform.function)
    else:
        queries.append(loaded.own_file(transform.sql))
    finder = _Finder(path=[str(folder) for folder in loaded.code])
    for name in named:
        try:
            finder.import_hook(name.partition(":")[0])
        except ImportError:
            # Not next to the file, so it is an installed module.
            continue
    found = (getattr(module, "__file__", None) for module in finder.modules.values())
    files = {Path(file) for file in found if file is not None}
    modules = {file for file in files if any(map(file.is_relative_to, loaded.code))}
    return sorted({*queries, *modules})


def _audit_query(loaded: LoadedPipeline) -> list[Path]:
    """Return the path of the audit's own query, if there is one in the pipeline's folder."""
    if (query := loaded.pipeline.audit_sql) is None:
        return []
    path = Path(os.path.normpath(loaded.own_file(query)))
    return [path] if path.is_file() and path.is_relative_to(loaded.folder) else []


def code_digests(loaded: LoadedPipeline) -> list[str]:
    """Return the SHA-256 of each file of :func:`code_of`, in that order, to detect changes of code.

    Raises:
        OSError: A file can't be read.
    """
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in code_of(loaded)]


class _Finder(ModuleFinder):
    """Finds imports also in packages without an ``__init__.py``, which ModuleFinder fails at."""

    def find_module(
        self, name: str, path: Any, parent: Any = None
    ) -> tuple[Any, str | None, tuple[str, str, int]]:
        spec = PathFinder.find_spec(name, self.path if path is None else path)
        if spec is None or spec.loader is not None or not spec.submodule_search_locations:
            return super().find_module(name, path, parent)
        return None, next(iter(spec.submodule_search_locations)), ("", "", _PACKAGE)

    def load_package(self, fqname: str, pathname: str) -> Any:
        if (Path(pathname) / "__init__.py").exists():
            return super().load_package(fqname, pathname)
        package: Any = self.add_module(fqname)
        package.__path__ = [pathname]
        return package
