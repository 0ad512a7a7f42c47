"""Import of user functions: the transform, and a factory of start positions."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any

from sources.config.loader import LoadedPipeline
from sources.errors import InputError

_preferred: set[str] = set()


def load_function(loaded: LoadedPipeline, field: str, name: str) -> Callable[[Any], Any]:
    """Import a function that the user wrote; modules next to the pipeline's file come first.

    Args:
        loaded: The pipeline.
        field: Field of the declaration that names the function, for messages.
        name: Name of the function as ``module:function``.

    Raises:
        InputError: The module can't be imported (or raises while it is), it has no attribute of
            this name, or the attribute is not callable.
    """
    module_name, function_name = name.split(":")
    # Each one is put in front of the others, so the first one comes last.
    for folder in reversed(loaded.code):
        _prefer(str(folder), module_name.split(".")[0])
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    # Importing runs the user's code, which may raise anything.
    except Exception as error:
        message = f"`{field}: {name}` can't be imported: {type(error).__name__}: {error}."
        hint = (
            f"Correct the name (`module:function`) or the module, which is looked for first in "
            f"{loaded.code[0]}, then among the installed packages."
        )
        raise InputError(
            message, hint, pipeline=loaded.pipeline.name, field=field, value=name
        ) from error
    if not callable(function):
        message = f"`{field}: {name}` is a {type(function).__name__}, not a function."
        hint = f"Write `{field}: {module_name}:<function>` with a function of that module."
        raise InputError(message, hint, pipeline=loaded.pipeline.name, field=field, value=name)
    return function  # type: ignore[no-any-return]


def _prefer(folder: str, package: str) -> None:
    """Let imports find a folder's modules first, even if another one of that name is loaded.

    Loaded modules of other pipelines' folders that hide one of this folder are unloaded as well.
    """
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    others = tuple(f"{each}{os.sep}" for each in _preferred if each != folder)
    _preferred.add(folder)
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        where = getattr(module, "__file__", None) or ""
        if top != package and not where.startswith(others):
            continue
        own = PathFinder.find_spec(top, [folder])
        known = getattr(sys.modules.get(top), "__file__", None)
        if own is not None and own.origin != known:
            del sys.modules[name]


def load_transform(loaded: LoadedPipeline) -> Callable[[Any], Any]:
    """Import the pipeline's transform, a function from DataFrame to DataFrame.

    Args:
        loaded: The pipeline.

    Raises:
        InputError: The function that ``transform`` names can't be imported, or is not callable.
    """
    return load_function(loaded, "transform", loaded.pipeline.transform)
