"""Local copy of a folder of the state, for readers that need a path: Python, logs."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from pathlib import Path

from sources.common.cache import cache_folder, make_private
from sources.storage.folder import Folder


def local_copy(folder: Folder) -> Path:
    """Return a local path to a folder of the state; one in a store is copied to this machine.

    The folder itself if it is local; else a copy in the cache folder, one for each content, so that
    equal contents are written once.

    Args:
        folder: The folder; its files are small.

    Raises:
        UnavailableError: The store does not answer.
        InputError: The store refuses.
        OSError: The copy can't be written to the cache folder.
    """
    if folder.is_local:
        return folder.root
    found = {name: folder.read_bytes(name) for name in folder.names("*")}
    files = {name: data for name, data in found.items() if data is not None}
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:32]
    copy = cache_folder() / "definitions" / digest
    if not copy.exists():
        part = copy.with_name(f".{digest}-{uuid.uuid4().hex}")
        make_private(part)
        for name, data in files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        try:
            part.rename(copy)
        except OSError:
            # Another process has written the same copy first.
            shutil.rmtree(part)
    return copy


def local_path(folder: Folder, name: str) -> Path:
    """Return the local path of a file that only this machine writes, such as a log.

    Neither the file nor its folder need exist.

    Args:
        folder: Folder of the state.
        name: Path of the file in it.

    Returns:
        The file in the folder, if that is on this machine; else one in the cache folder.
    """
    if folder.is_local:
        return folder.path(name)
    own = hashlib.sha256(folder.url.encode()).hexdigest()[:16]
    return cache_folder() / "state" / own / name
