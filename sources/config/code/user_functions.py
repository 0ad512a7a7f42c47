"""Import of user functions, next to the pipeline's file first; the line of them that failed."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from sources.config.code.own_modules import IMPORTING
from sources.config.code.reserved_names import require_free_names
from sources.config.code.sql_file import read_sql
from sources.config.code.transform import FunctionTransform
from sources.config.loader import LoadedPipeline
from sources.errors import InputError

_preferred: set[str] = set()


class CodeLine(NamedTuple):
    """Line of the user's code, printed as ``flights.py:12``.

    Attributes:
        file: Path of the file, relative to the pipeline's folder where it lies below that.
        line: Number of the line, from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def load_function(loaded: LoadedPipeline, field: str, name: str) -> Callable[[Any], Any]:
    """Import a function that the user wrote; modules next to the pipeline's file come first.

    Importing runs the code of its module. Nothing is called.

    Args:
        loaded: The pipeline.
        field: Field of the declaration that names the function, for messages.
        name: Name of the function as ``module:function``.

    Raises:
        InputError: The module can't be imported (or raises while it is), it has no attribute of
            this name, or the attribute is not callable. Or a module next to the pipeline's file
            has the name of one of this distribution's packages.
    """
    require_free_names(loaded.code, loaded.pipeline.name)
    module_name, function_name = name.split(":")
    try:
        with _own_first(loaded, module_name.split(".")[0]):
            function = getattr(importlib.import_module(module_name), function_name)
    # Importing runs the user's code, which may raise anything.
    except Exception as error:
        place = find_line(loaded, module_name, error)
        where = "" if place is None else f"{place}: "
        why = f"{type(error).__name__}: {error}".rstrip(".")
        message = f"{where}`{field}: {name}` can't be imported: {why}."
        hint = (
            f"Correct the name (`module:function`) or the module, which is looked for first in "
            f"{loaded.code[0]}, then among the installed packages."
        )
        if "SESSION_OR_CONTEXT_NOT_EXISTS" in why:
            hint = f"Make what needs a Spark session within `{function_name}`: there is one then."
        raise InputError(
            message, hint, pipeline=loaded.pipeline.name, field=field, value=name
        ) from error
    if not callable(function):
        message = f"`{field}: {name}` is not a function."
        hint = f"Write `{field}: {module_name}:<function>` with a function of that module."
        raise InputError(message, hint, pipeline=loaded.pipeline.name, field=field, value=name)
    return function  # type: ignore[no-any-return]


def find_line(loaded: LoadedPipeline, module: str, error: BaseException) -> CodeLine | None:
    """Return the innermost line of the user's code that an error passed through; None if none.

    The user's code are the modules next to the pipeline's file and the package of the function. Of
    a SyntaxError it is the place of the error itself.

    Args:
        loaded: The pipeline.
        module: Name of the function's module.
        error: Exception that was caught.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return code_line(loaded, error.filename, error.lineno)
    found: CodeLine | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        is_installed = "site-packages" in path.parts
        is_near = not is_installed and any(map(path.is_relative_to, loaded.code))
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if is_near or package == module.partition(".")[0]:
            found = code_line(loaded, str(path), line)
    return found


def code_line(loaded: LoadedPipeline, file: str, line: int) -> CodeLine:
    """Return a line as a :class:`CodeLine`, with a path relative to the pipeline's folder.

    A file elsewhere keeps its path. Nothing is read.

    Args:
        loaded: The pipeline.
        file: Path of the file.
        line: Number of the line, from 1.
    """
    path = Path(file)
    for folder in loaded.code:
        if path.is_relative_to(folder):
            return CodeLine(str(path.relative_to(folder)), line)
    return CodeLine(file, line)


@contextmanager
def _own_first(loaded: LoadedPipeline, package: str) -> Iterator[None]:
    """Let imports find the modules next to a pipeline's file first; for one thread at a time."""
    if loaded.modules is not None:
        with loaded.modules.importable(loaded.code):
            yield
        return
    with IMPORTING:
        # Each one is put in front of the others, so the first one comes last.
        for folder in reversed(loaded.code):
            _prefer(str(folder), package)
        yield


def _prefer(folder: str, package: str) -> None:
    """Let imports find a folder's modules first, even if another one of that name is loaded.

    Loaded modules of other pipelines' folders that hide one of this folder are unloaded as well.
    """
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    others = tuple(f"{each}{os.sep}" for each in _preferred if each != folder)
    _preferred.add(folder)
    # A copy at once: other threads import modules while a list of pairs is made.
    for name, module in dict(sys.modules).items():
        top = name.partition(".")[0]
        where = getattr(module, "__file__", None) or ""
        if top != package and not where.startswith(others):
            continue
        own = PathFinder.find_spec(top, [folder])
        known = getattr(sys.modules.get(top), "__file__", None)
        if own is not None and own.origin != known:
            del sys.modules[name]


def require_transform(loaded: LoadedPipeline) -> None:
    """Refuse the pipeline's transform (each has one) if its function or query can't be loaded.

    Spark is not started.

    Args:
        loaded: The pipeline.

    Raises:
        InputError: The function can't be imported, or is not callable; or the file of the query
            can't be read. Or a module next to the pipeline's file has a reserved name.
    """
    declared = loaded.pipeline.transform
    if isinstance(declared, FunctionTransform):
        load_function(loaded, "transform", declared.function)
    else:
        # Spark's workers look for modules in the pipeline's folder all the same.
        require_free_names(loaded.code, loaded.pipeline.name)
        read_sql(loaded.own_file(declared.sql), "transform.sql", declared.sql)
