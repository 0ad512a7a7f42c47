"""Archive of a driver's classes, as launches ask for it; an extension makes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sources.extensions import contributions


class ClassArchive(Protocol):
    """Interface of what archives the classes that a driver loads, and starts drivers with them."""

    def use(self, home: Path, jars: Sequence[Path], conf: dict[str, str]) -> dict[str, str]:
        """Return the Spark properties of a local driver, extended by those that use the archive.

        Args:
            home: Folder of the Spark installation (``SPARK_HOME``, or the one inside PySpark).
            jars: The project's own jars, which come first on the class path.
            conf: All other Spark properties.

        Raises:
            InputError: There is no Java.
        """

    def make(self, home: Path, jars: Sequence[Path]) -> Path:
        """Create the archive unless it exists, and return its file.

        Args:
            home: Folder of the Spark installation.
            jars: The project's own jars.

        Raises:
            InputError: There is no Java, or too old a one.
            RunError: The job that loads the classes failed.
        """


def installed_archive() -> ClassArchive | None:
    """Return the archive of the first installed extension that has one; None without any.

    Raises:
        InputError: An extension can't be loaded.
    """
    return next(contributions("class_archive"), None)


def with_archive(home: Path, jars: Sequence[Path], conf: dict[str, str]) -> dict[str, str]:
    """Return properties by :meth:`ClassArchive.use`; unchanged if no extension archives classes.

    Raises:
        InputError: There is no Java, or an extension can't be loaded.
    """
    archive = installed_archive()
    return conf if archive is None else archive.use(home, jars, conf)
