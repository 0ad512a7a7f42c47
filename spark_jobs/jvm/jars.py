"""Jars of the JVM parts: from the cache, downloaded once, or from the folder `HYBRID_JARS`.

Or they come from a folder that already contains them (``HYBRID_JARS``), for machines without a
network. Jars that are in the cache need neither PySpark nor a JVM.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sources.common.cache import cache_folder, make_private
from sources.errors import InputError
from sources.extensions import required
from spark_jobs.jvm.jar_sets import JarSet, find_set

FOLDER_VARIABLE = "HYBRID_JARS"
_LISTING = "files.json"

OnProgress = Callable[[str], None]


def resolve(set_name: str, on_progress: OnProgress = lambda _: None) -> list[Path]:
    """Return the jars of a set, sorted by name; download them if they are not there yet.

    Several processes may call this at once: one downloads, the others wait for it.

    Args:
        set_name: A key of ``SETS``.
        on_progress: Called with the file name of each jar whose download begins, and once before
            waiting for another process.

    Raises:
        InputError: There is no such set, Java is missing, a jar can't be downloaded, the cache
            folder can't be written, or the folder named in ``HYBRID_JARS`` lacks the set.
    """
    return obtain(set_name, find_set(set_name), on_progress)


def resolve_sets(
    set_names: Iterable[str], on_progress: OnProgress = lambda _: None
) -> dict[str, list[Path]]:
    """Return the jars of several sets; download in parallel those that are not there yet.

    Args:
        set_names: Keys of ``SETS``.
        on_progress: Called with the file name of each jar whose download begins, and once before
            waiting for another process; from several threads.

    Returns:
        The jars of each set, by name, in the order of ``set_names``.

    Raises:
        InputError: There is no such set; or, once all downloads have ended, Java is missing, a jar
            can't be downloaded, the cache folder can't be written, or the folder named in
            ``HYBRID_JARS`` lacks a set.
    """
    names = list(set_names)
    for name in names:
        find_set(name)
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        found = pool.map(partial(resolve, on_progress=on_progress), names)
        return dict(zip(names, found, strict=True))


def obtain(set_name: str, jar_set: JarSet, on_progress: OnProgress = lambda _: None) -> list[Path]:
    """Return the jars of a set, sorted by name; download them unless the cache has them.

    Several processes may call this at once: one downloads, the others wait for it.

    Args:
        set_name: Names the set in messages and in the cache.
        jar_set: The Maven packages of the set.
        on_progress: Called with the file name of each jar whose download begins, and once before
            waiting for another process.

    Raises:
        InputError: No installed extension downloads jars, Java is missing, a jar can't be
            downloaded, the cache folder can't be written,
            or the folder named in ``HYBRID_JARS`` lacks the set.
    """
    if handed_in := os.environ.get(FOLDER_VARIABLE):
        return _handed_in(Path(handed_in) / set_name, set_name)
    digest = hashlib.sha256(repr(jar_set).encode()).hexdigest()[:10]
    folder = cache_folder() / "jars" / f"{set_name}-{digest}"
    if (jars := _complete(folder)) is not None:
        return jars
    with _locked(folder, set_name, on_progress) as lock:
        # Another process may have finished while this one waited.
        if (jars := _complete(folder)) is None:
            jars = _download(set_name, jar_set, folder, lock, on_progress)
    return jars


def _handed_in(folder: Path, set_name: str) -> list[Path]:
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        state = "holds no jars" if folder.is_dir() else "does not exist"
        message = (
            f"The environment variable {FOLDER_VARIABLE} is set, so nothing is downloaded, but "
            f"{folder} {state}; the {set_name} jars are expected there."
        )
        hint = (
            f"On a machine with a network, run `hybrid jars {set_name}` and copy the folder that "
            f"it prints to {folder}; or unset {FOLDER_VARIABLE} to download the jars."
        )
        raise InputError(message, hint, file=str(folder))
    return jars


def _complete(folder: Path) -> list[Path] | None:
    """Return the jars of a cache folder, or None unless all are there at their full size."""
    try:
        listing: dict[str, int] = json.loads((folder / _LISTING).read_text())
        if any((folder / name).stat().st_size != size for name, size in listing.items()):
            return None
    except (OSError, ValueError):
        return None
    return [folder / name for name in sorted(listing)]


@contextmanager
def _locked(folder: Path, set_name: str, on_progress: OnProgress) -> Iterator[int]:
    path = folder.with_name(f"{folder.name}.lock")
    try:
        make_private(path.parent)
        file = path.open("ab")
    except OSError as error:
        message = (
            f"The {set_name} jars can't be downloaded: the cache folder {path.parent} can't be "
            f"written ({error.strerror})."
        )
        hint = "Make this folder writable, or name another one in the variable HYBRID_CACHE."
        raise InputError(message, hint, file=str(path.parent)) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress(f"Waiting for another process that downloads the {set_name} jars.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _download(
    set_name: str, jar_set: JarSet, folder: Path, lock: int, on_progress: OnProgress
) -> list[Path]:
    otherwise = f"name a folder that has them in the environment variable {FOLDER_VARIABLE}"
    download = required("jars", "downloads JVM parts", otherwise, value=set_name)
    # The lock keeps other processes out. Files that were verified in an interrupted download are
    # used again; the final folder appears by one rename, when it is complete.
    part = folder.with_name(f"{folder.name}.part")
    fetched: Path = download(set_name, jar_set, part, lock, on_progress)
    sizes = {jar.name: jar.stat().st_size for jar in fetched.glob("*.jar")}
    (fetched / _LISTING).write_text(json.dumps(sizes, indent=1, sort_keys=True))
    shutil.rmtree(folder, ignore_errors=True)
    fetched.rename(folder)
    shutil.rmtree(part, ignore_errors=True)
    return [folder / name for name in sorted(sizes)]
