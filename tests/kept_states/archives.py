"""Archives of kept states: one for each version and state, and one with the broker of a version.

A state refers to its files by absolute paths, so it is unpacked where it was made. The broker's
data come as they are, since a plan names the topic and the cluster by Kafka's own ids.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from spark_jobs.jvm.spark_version import DEFAULT, minor_of

BROKER = "broker"
"""Name of the archive with the topics of all states of a version."""
SERVERS = "KEPT_STATES_BROKER"
"""Environment variable by which the declarations name the broker."""
FILE = "pipeline.yaml"
"""Name of the file that declares a state's pipeline."""
HOME = Path(__file__).parent
"""Folder with a folder for each version."""
_PLACE = Path("/tmp/hybrid-kept-states")
_ENDING = ".tar.xz"


class Kept(NamedTuple):
    """A kept state.

    Attributes:
        version: Version of the project that left it, such as ``0.3``; and of Spark, if that was not
            the default, such as ``0.3-spark4.1``.
        name: Its name, such as ``live``.
    """

    version: str
    name: str

    @property
    def archive(self) -> Path:
        """The file in the repository."""
        return HOME / self.version / f"{self.name}{_ENDING}"

    @property
    def folder(self) -> Path:
        """The folder where it was made and is unpacked."""
        return _PLACE / self.version / self.name

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Each file: its path in the folder, and its content."""
        with tarfile.open(self.archive) as archive:
            for member in archive:
                if (file := archive.extractfile(member)) is not None:
                    yield member.name, file.read()


def this_version() -> str:
    """The version whose states are made now, as its folder is called: ``0.3`` of ``0.3.1``."""
    return ".".join(version("hybrid-backfill").split(".")[:2])


def made_here() -> str:
    """The folder of states that are made with the installed Spark: ``0.3``, ``0.3-spark4.1``."""
    spark = minor_of(version("pyspark"))
    return this_version() if spark == DEFAULT else f"{this_version()}-spark{spark}"


def kept_states() -> list[Kept]:
    """All kept states of all versions."""
    found = sorted(HOME.glob(f"*/*{_ENDING}"))
    every = [Kept(path.parent.name, path.name.removesuffix(_ENDING)) for path in found]
    return [each for each in every if each.name != BROKER]


@contextmanager
def locked(kept: Kept) -> Iterator[Path]:
    """The state's folder, empty, for nobody else; removed at the end."""
    kept.folder.parent.mkdir(parents=True, exist_ok=True)
    with open(kept.folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # What a test that was killed has left.
        shutil.rmtree(kept.folder, ignore_errors=True)
        kept.folder.mkdir()
        try:
            yield kept.folder
        finally:
            shutil.rmtree(kept.folder, ignore_errors=True)


@contextmanager
def unpacked(kept: Kept) -> Iterator[Path]:
    """The state where it was made."""
    with locked(kept) as folder:
        unpack(kept, folder)
        yield folder


def unpack(kept: Kept, folder: Path) -> None:
    """Write a state's files to a folder, with the times that they had."""
    with tarfile.open(kept.archive) as archive:
        # Python 3.11 has the filter from 3.11.4 on.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)


def pack(
    kept: Kept,
    folder: Path,
    is_left_out: Callable[[str], bool],
    changed: Callable[[str, bytes], bytes] = lambda _, content: content,
) -> None:
    """Make the archive of a folder's files, as nobody's.

    Args:
        kept: The state.
        folder: Its files.
        is_left_out: Asked with each path in the folder.
        changed: What a file is to contain, of its path in the folder and its content.
    """
    kept.archive.parent.mkdir(exist_ok=True)
    with tarfile.open(kept.archive, "w:xz", preset=9) as archive:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            name = str(path.relative_to(folder))
            if is_left_out(name):
                continue
            member = tarfile.TarInfo(name)
            content = changed(name, path.read_bytes())
            member.size, member.mode = len(content), 0o644
            # A fraction of a second would not come back as it was.
            member.mtime = int(os.stat(path).st_mtime)
            archive.addfile(member, io.BytesIO(content))
