"""Copy of a file of this machine, never as a link: by the file system where it can, or by bytes."""

from __future__ import annotations

import contextlib
import os
import shutil

_PART = 1 << 30  # bytes


def copy_apart(source: str, path: str) -> None:
    """Copy a file of this machine, never as a link: later changes to one do not affect the other.

    The file system copies, where it can (XFS and Btrfs share the blocks). What a failed call has
    written stays.

    Args:
        source: The file.
        path: Path of the copy; folders above it are created.

    Raises:
        FileNotFoundError: There is no such file.
        FileExistsError: There is a file at ``path``.
        OSError: It can't be copied.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(source, "rb") as reader, open(path, "xb") as writer:
        with contextlib.suppress(OSError):
            while os.copy_file_range(reader.fileno(), writer.fileno(), _PART):
                pass
        if os.fstat(writer.fileno()).st_size != os.fstat(reader.fileno()).st_size:
            # Another file system, or one without this call.
            os.ftruncate(writer.fileno(), 0)
            for file in (reader, writer):
                os.lseek(file.fileno(), 0, os.SEEK_SET)
            shutil.copyfileobj(reader, writer)
