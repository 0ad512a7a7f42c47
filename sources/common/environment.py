"""Environment variables, whose value may also be in a file that ``NAME_FILE`` names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sources.errors import InputError

FILE_SUFFIX = "_FILE"
"""What the name of a variable ends in whose value is a file's path, as with Docker's secrets."""


def variable(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the value of ``NAME``, or else the content of the file that ``NAME_FILE`` names.

    An empty variable counts as not set. None if neither is set. The file is read at each call, so
    that a renewed secret is found; one line break at its end is not part of the value.

    Args:
        name: Name of the variable.
        environment: Variables that are set.

    Raises:
        InputError: ``NAME_FILE`` is no absolute path, or names a file that can't be read or that
            holds no value. Names the file, never its content.
    """
    if value := environment.get(name):
        return value
    path = environment.get(f"{name}{FILE_SUFFIX}")
    return _content(path, name) if path else None


def is_set(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the variable ``NAME`` or ``NAME_FILE`` is set, even if to nothing.

    No file is read.
    """
    return name in environment or f"{name}{FILE_SUFFIX}" in environment


def _content(path: str, name: str) -> str:
    if not Path(path).is_absolute():
        # Commands, Dagster and drivers have different working directories.
        raise _unreadable(path, name, "is not given by an absolute path")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(path, name, f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        # The error itself carries the content.
        raise _unreadable(path, name, "is not text in UTF-8") from None
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise _unreadable(path, name, "is empty")
    return value


def _unreadable(path: str, name: str, what: str) -> InputError:
    file = f"{name}{FILE_SUFFIX}"
    message = f"The file {path}, which the environment variable {file} names, {what}."
    hint = (
        f"Write the value of {name} into that file, readable for the user that runs the command; "
        f"or correct {file}; or set {name} itself."
    )
    return InputError(message, hint, file=path, value=name)
