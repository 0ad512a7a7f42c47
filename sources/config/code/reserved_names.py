"""Reserved names of modules: those of our own packages, which none next to a pipeline can have."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from sources.errors import InputError

RESERVED = (
    "feeds",
    "hybrid_demo",
    "hybrid_extensions",
    "hybrid_testing",
    "orchestration",
    "services",
    "sources",
    "spark_jobs",
)
"""The packages, by their import names."""
_OWN = Path(__file__).resolve().parents[2]


def require_free_names(folders: Sequence[Path], pipeline: str) -> None:
    """Refuse a user's module that would be imported in place of a package of this distribution.

    Args:
        folders: Where the pipeline's modules are looked for.
        pipeline: Name of the pipeline, for messages.

    Raises:
        InputError: Names the file, and the reserved names.
    """
    for folder in folders:
        for name in RESERVED:
            found = PathFinder.find_spec(name, [str(folder)])
            # A folder without an `__init__.py` hides no package, and has no file either.
            if (
                found is None
                or found.origin is None
                or Path(found.origin).resolve().is_relative_to(_OWN / name)
            ):
                continue
            message = (
                f"{found.origin} has the name of the package `{name}` of hybrid-backfill, and "
                "would be imported in its place."
            )
            hint = (
                f"Rename it, and its imports in your code: next to a pipeline's file no module is "
                f"called {', '.join(RESERVED[:-1])} or {RESERVED[-1]}."
            )
            raise InputError(message, hint, pipeline=pipeline, file=found.origin)
