"""The user's functions, found by name: the transform, and a factory of start positions."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any

from sources.document import LoadedPipeline
from sources.errors import InputError


def load_function(loaded: LoadedPipeline, field: str, name: str) -> Callable[[Any], Any]:
    """Import a function; modules beside the pipeline's file come first.

    Args:
        loaded: The pipeline.
        field: Where it is declared, for the error.
        name: ``module:function``.

    Raises:
        InputError: The module or the function can't be imported, or is not callable.
    """
    module_name, function_name = name.split(":")
    folder = str(loaded.folder)
    _prefer(folder, module_name.split(".")[0])
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    # Importing runs the user's code: whatever it raises is the answer.
    except Exception as error:
        message = f"`{field}: {name}` can't be imported: {type(error).__name__}: {error}."
        hint = f"It is looked up as `module:function`, first in {folder}."
        raise InputError(message, hint) from error
    if not callable(function):
        message = f"`{field}: {name}` is a {type(function).__name__}, not a function."
        raise InputError(message, "Name a function.")
    return function  # type: ignore[no-any-return]


def _prefer(folder: str, package: str) -> None:
    """Let imports find a folder's own modules first, also if another's of that name is loaded."""
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    own = PathFinder.find_spec(package, [folder])
    known = sys.modules.get(package)
    if own is None or known is None or getattr(known, "__file__", None) == own.origin:
        return
    for name in list(sys.modules):
        if name == package or name.startswith(f"{package}."):
            del sys.modules[name]


def load_transform(loaded: LoadedPipeline) -> Callable[[Any], Any]:
    """The pipeline's transform, from DataFrame to DataFrame (:func:`load_function`)."""
    return load_function(loaded, "transform", loaded.pipeline.transform)
