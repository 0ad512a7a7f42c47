"""A power failure of a disk: of a folder, only what was synced is there afterwards."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

Names = dict[str, int]


class Kept(NamedTuple):
    """What a disk holds of a folder at a power failure.

    Attributes:
        root: Inode of the folder.
        names: Names in each folder, with their inodes, by the inode of the folder.
        contents: Content of each file, by its inode.
    """

    root: int
    names: dict[int, Names]
    contents: dict[int, bytes]

    def restore(self, folder: Path) -> None:
        """Write the folder as it is once the power is back; what was never synced is empty."""
        shutil.rmtree(folder)
        self._write(folder, self.root)

    def _write(self, path: Path, inode: int) -> None:
        if inode in self.names:
            path.mkdir()
            for name, each in self.names[inode].items():
                self._write(path / name, each)
        else:
            path.write_bytes(self.contents.get(inode, b""))


class Disk:
    """A folder on a disk that loses what was not synced when the power fails.

    Args:
        folder: The folder; all that is in it at first was synced.
        chance: Decides what else survives, as a disk also writes without being told.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        # Open, so that the inode of a file that is deleted is not that of another one meanwhile.
        self._open: dict[int, int] = {}
        self._synced = self._now()

    def _now(self) -> Kept:
        names: dict[int, Names] = {}
        contents: dict[int, bytes] = {}
        for place, folders, files in os.walk(self._folder):
            here = Path(place)
            names[here.stat().st_ino] = {
                each: (here / each).stat().st_ino for each in [*folders, *files]
            }
            contents |= {(here / each).stat().st_ino: (here / each).read_bytes() for each in files}
            for each in (here, *(here / name for name in files)):
                if (inode := each.stat().st_ino) not in self._open:
                    self._open[inode] = os.open(each, os.O_RDONLY)
        return Kept(self._folder.stat().st_ino, names, contents)

    def close(self) -> None:
        """Forget the files; none of them is needed any more."""
        for descriptor in self._open.values():
            os.close(descriptor)

    def sync(self, descriptor: int) -> None:
        """Keep what a file or folder holds now."""
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        found, now = os.fstat(descriptor), self._now()
        if not path.is_relative_to(self._folder):
            return
        if stat.S_ISDIR(found.st_mode):
            names = self._synced.names[found.st_ino] = now.names[found.st_ino]
            for each in now.names.keys() & names.values():
                # A folder that is empty until it is synced itself.
                self._synced.names.setdefault(each, {})
        else:
            self._synced.contents[found.st_ino] = now.contents[found.st_ino]

    def cut(self) -> Kept:
        """What would be there if the power failed now: what was synced, and some of the rest."""
        now, synced = self._now(), self._synced
        names = {inode: dict(each) for inode, each in synced.names.items()}
        contents = dict(synced.contents)
        for inode, there in now.names.items():
            before = names.setdefault(inode, {})
            for name in {*there, *before}:
                if there.get(name) != before.get(name) and self._chance.random() < 0.5:
                    before.pop(name, None)
                    if name in there:
                        before[name] = there[name]
        for inode, content in now.contents.items():
            if self._chance.random() < 0.5:
                contents[inode] = content
        return Kept(synced.root, names, contents)

    def synced(self) -> Kept:
        """What would be there if the power failed now, and nothing but what was synced survived."""
        names = {inode: dict(each) for inode, each in self._synced.names.items()}
        return Kept(self._synced.root, names, dict(self._synced.contents))


@contextmanager
def powered(folder: Path, seed: int, at_cut: Callable[[Disk], None]) -> Iterator[Disk]:
    """Run the body of ``with`` on such a disk.

    Args:
        folder: The folder.
        seed: Decides what survives without having been synced.
        at_cut: Called before and after each sync, when the power may fail.
    """
    disk, fsync = Disk(folder, random.Random(seed)), os.fsync

    def sync(descriptor: int) -> None:
        at_cut(disk)
        fsync(descriptor)
        disk.sync(descriptor)
        at_cut(disk)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        try:
            yield disk
        finally:
            disk.close()
