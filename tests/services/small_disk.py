"""A real disk that is small enough to be filled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory; skips the test where none may be mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Leave not a byte."""
        with (self.folder / "filler").open("wb", buffering=0) as filler:
            size = 1 << 20
            while size:
                try:
                    filler.write(bytes(size))
                except OSError:
                    size //= 2

    def free(self) -> None:
        """Give back what :meth:`fill` took."""
        (self.folder / "filler").unlink()

    def remount(self, mode: str) -> None:
        """As ``ro`` or ``rw``."""
        subprocess.run(["mount", "-o", f"remount,{mode}", str(self.folder)], check=True)


def require_mounts() -> None:
    """Skip the test where a process may not have mounts of its own."""
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system may be mounted here")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[SmallDisk]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system may be mounted here")
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily: a process that died may still be on its way out.
        subprocess.run(["umount", "-l", str(folder)], check=True)
