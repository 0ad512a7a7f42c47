"""Files that a process inherits before they have a name."""

from __future__ import annotations

import os
from pathlib import Path

_OPEN = Path("/proc/self/fd")


class UnnamedFile:
    """Empty file that is named later, or vanishes when the last process closes it (O_TMPFILE).

    Args:
        place: Folder that the file will lie in, or one above it; it need not exist.

    Attributes:
        descriptor: Descriptor of the file, open for reading and appending; to be closed by the
            caller. A process that inherits it shares its locks.

    Raises:
        OSError: The file system has no such files, as NFS, or can't be written.
    """

    def __init__(self, place: Path) -> None:
        folder = next(each for each in (place, *place.parents) if each.exists())
        flags = os.O_TMPFILE | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        self.descriptor = os.open(folder, flags, 0o644)

    @property
    def path(self) -> Path:
        """Path by which this process can read the file, whether or not it has a name."""
        return _OPEN / str(self.descriptor)

    def name(self, path: Path) -> None:
        """Give the file a name, creating its folder; if several processes use one name, one wins.

        Raises:
            FileExistsError: There is a file of that name.
            OSError: Its folder can't be written, or is on another file system.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(_OPEN, os.O_PATH)
        try:
            # Only with a folder's descriptor does Python follow the link to the open file.
            os.link(str(self.descriptor), path, src_dir_fd=opened, follow_symlinks=True)
        finally:
            os.close(opened)
