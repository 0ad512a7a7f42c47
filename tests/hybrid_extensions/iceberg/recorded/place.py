"""Where the recorded tables were made, and how they are moved to where a test wants them.

Iceberg's metadata has absolute paths. All of these are as long as another folder's name can be
made, and no file that has one is compressed.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ARCHIVE = Path(__file__).with_name("tables.tar.xz")
_LENGTH = 200
PLACE = Path("/tmp") / "iceberg-".ljust(_LENGTH - len("/tmp/"), "-")
"""Folder of all tables when they were made."""


@cache
def _content() -> dict[str, bytes]:
    """What the archive holds, by name."""
    with tarfile.open(ARCHIVE) as archive:
        files = [(info.name, archive.extractfile(info)) for info in archive]
        return {name: file.read() for name, file in files if file is not None}


class Recorded(NamedTuple):
    """What Spark said of a table.

    Attributes:
        rows: Its rows, as JSON has them; times have microseconds and no zone.
        snapshots: Ids of its snapshots, from the first on.
    """

    rows: list[dict[str, Any]]
    snapshots: list[int]


def recorded() -> dict[str, Recorded]:
    """The tables by their names, such as ``v2/plain``."""
    return {name: Recorded(**each) for name, each in json.loads(_content()["rows.json"]).items()}


def unpack(folder: Path, table: str) -> Path:
    """Unpack a table below a folder, and return its own folder.

    Args:
        folder: The folder, whose path is shorter than that of :data:`PLACE`.
        table: Name of the table.
    """
    place = folder / "-".ljust(_LENGTH - len(str(folder)) - 1, "-")
    assert len(str(place)) == len(str(PLACE))
    for name, content in _content().items():
        if name.startswith((f"{table}/", "files/")):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(_moved(name, content, place))
    return place / table


def _moved(name: str, content: bytes, place: Path) -> bytes:
    if name.endswith(".gz.metadata.json"):
        return gzip.compress(_moved("", gzip.decompress(content), place))
    return content.replace(str(PLACE).encode(), str(place).encode())
