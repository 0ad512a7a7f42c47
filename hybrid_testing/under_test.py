"""Name under which a pipeline declares the transform that a test gives as a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

Transform = Callable[..., DataFrame]
"""A function from DataFrame to DataFrame, as ``transform`` of a pipeline names one.

With several inputs it has an argument for each, of its name.
"""
REFERENCE = f"{__name__}:transform"
"""What ``transform`` of a pipeline has to be to use the function that is tested."""
_tested: list[Transform] = []


def __getattr__(name: str) -> Any:
    """Return the function itself, so that errors name the user's file and line."""
    if name == "transform" and _tested:
        return _tested[-1]
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


@contextmanager
def testing(transform: Transform) -> Iterator[None]:
    """Let :data:`REFERENCE` mean a transform within the ``with`` block.

    Of nested blocks the innermost one counts.

    Args:
        transform: The transform.

    Yields:
        Nothing.
    """
    _tested.append(transform)
    try:
        yield
    finally:
        _tested.pop()
