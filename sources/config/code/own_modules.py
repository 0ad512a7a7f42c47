"""Own modules of a pipeline: those of its functions, kept apart from those of other pipelines.

For a process that runs several pipelines, such as a shared driver.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

IMPORTING = threading.RLock()
"""Lock that is held while modules next to a pipeline's file are put first and imported: what is
found first is the same for all threads of a process."""


class OwnModules:
    """Registry of the modules next to one pipeline's file, imported for that pipeline only.

    In a process that runs several pipelines it keeps apart modules of the same name. Outside of
    :meth:`importable` the modules are not in ``sys.modules``; so pickle sends their functions to
    Spark's tasks by value, and what such a function imports when it is called is looked for among
    the installed packages only.
    """

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def importable(self, folders: Sequence[Path]) -> Iterator[None]:
        """Make modules in some folders importable, before all others, in the body of ``with``.

        Holds a lock of the process, so other threads wait. Afterwards ``sys.path`` and
        ``sys.modules`` are as before.

        Args:
            folders: The folders; of two modules of one name the one in the earlier folder is used.
        """
        paths = [str(folder) for folder in folders]
        with IMPORTING:
            before, path = dict(sys.modules), list(sys.path)
            # Other modules of the same names make way.
            for name in _named_in(paths, before, is_same=False):
                del sys.modules[name]
            sys.modules.update(self._modules)
            sys.path[:0] = paths
            _look_again(paths)
            try:
                yield
            finally:
                sys.path[:] = path
                # A copy, as other threads import modules meanwhile.
                after = dict(sys.modules)
                loaded = {k: v for k, v in after.items() if before.get(k) is not v}
                for name in _named_in(paths, loaded, is_same=True):
                    self._modules[name] = sys.modules.pop(name)
                sys.modules.update(before)


def _look_again(paths: list[str]) -> None:
    """Let imports list the folders, and those in them, again: `importlib.invalidate_caches`.

    That one goes through the finders of the whole process, and fails if another thread imports
    from a new folder meanwhile.
    """
    for place, finder in dict(sys.path_importer_cache).items():
        invalidate = getattr(finder, "invalidate_caches", None)
        if invalidate is not None and any(Path(place).is_relative_to(path) for path in paths):
            invalidate()


def _named_in(paths: list[str], modules: dict[str, ModuleType], *, is_same: bool) -> list[str]:
    """Return the modules that have the name of one in the folders: that one itself, or another."""

    @cache
    def is_meant(top: str) -> bool:
        found, known = PathFinder.find_spec(top, paths), modules.get(top)
        if found is None:
            return False
        if found.origin is not None:
            return (found.origin == getattr(known, "__file__", None)) == is_same
        # A folder without an `__init__.py` hides no package but one of the same kind.
        if is_same or known is None or getattr(known, "__file__", None) is not None:
            return is_same and getattr(known, "__file__", None) is None
        return [*known.__path__] != [*(found.submodule_search_locations or [])]

    return [name for name in modules if is_meant(name.partition(".")[0])]
