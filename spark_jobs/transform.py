"""The user's transform: found by name, applied once to the union of all sources."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from sources.document import LoadedPipeline
from sources.errors import InputError


def load_transform(loaded: LoadedPipeline) -> Callable[[Any], Any]:
    """Import ``module:function``; modules beside the pipeline's file come first.

    Raises:
        InputError: The module or the function can't be imported, or is not callable.
    """
    name = loaded.pipeline.transform
    module_name, function_name = name.split(":")
    folder = str(loaded.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    # Importing runs the user's code: whatever it raises is the answer.
    except Exception as error:
        message = f"`transform: {name}` can't be imported: {type(error).__name__}: {error}."
        hint = f"It is looked up as `module:function`, first in {folder}."
        raise InputError(message, hint) from error
    if not callable(function):
        message = f"`transform: {name}` is a {type(function).__name__}, not a function."
        raise InputError(message, "Name a function from DataFrame to DataFrame.")
    return function  # type: ignore[no-any-return]
