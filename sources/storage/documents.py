"""Interface of stores for small documents: atomic writes, also conditional ones.

Paths are absolute, as those of :class:`~sources.storage.base.Storage`. A reader sees all of a
document's old content or all of the new one. What is written is durable when a method returns;
a copy on this machine is not, as little as the files that Spark writes there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from sources.common.times import now_ms


class Document(NamedTuple):
    """Content and version tag of a document.

    Attributes:
        data: Its content.
        tag: Version tag: differs wherever the content differs.
        modified_ms: When it was written, in Unix milliseconds, by the store's clock.
    """

    data: bytes
    tag: str
    modified_ms: int


class Listed(NamedTuple):
    """A document as a listing describes it, without its content.

    Attributes:
        path: Its absolute path.
        size: Its size in bytes.
        modified_ms: When it was written, in Unix milliseconds, by the store's clock.
    """

    path: str
    size: int
    modified_ms: int


class DocumentStore(Protocol):
    """A store of documents; safe to use from several threads and from several hosts.

    Every method raises :class:`~sources.errors.UnavailableError` if the store does not answer, and
    :class:`~sources.errors.InputError` if it refuses, for example without permission; on this
    machine the ``OSError`` itself.
    """

    deletes_at_once: bool
    """Whether a folder can be deleted in one step."""

    @property
    def delta_options(self) -> dict[str, str] | None:
        """Options (``storage_options``) with which delta-rs opens a Delta table here; None if none.

        They contain the present login if the store needs one: never print or keep them.

        Raises:
            UnavailableError: The login has expired, and can't be renewed at the moment.
            InputError: There are no credentials that can be used.
        """

    def read(self, path: str) -> Document | None:
        """Return a document with its version tag; None if it does not exist.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: it can't be read.
        """

    def exists(self, path: str) -> bool:
        """Return whether there is a document of this path.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
        """

    def age_ms(self, path: str) -> int | None:
        """Return how many milliseconds ago a document was written; None if it does not exist.

        Both times are the store's, so that clocks of hosts don't matter.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: it can't be examined.
        """

    def listing(self, folder: str) -> list[Listed]:
        """Return all documents of a folder and of the folders in it, sorted by path.

        Empty if the folder does not exist.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: a folder can't be listed.
        """

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder, sorted.

        Empty if the folder does not exist.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: it can't be listed.
        """

    def put(self, path: str, data: bytes) -> str:
        """Write a document, over an existing one if there is one; return its version tag.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: it can't be written.
        """

    def put_if_absent(self, path: str, data: bytes) -> str | None:
        """Write a document unless it exists; of concurrent writers exactly one wins.

        Returns:
            The new version tag if this writer won; None if another document is there. A document
            with the same content counts as this writer's own, because the answer to an earlier
            request may have been lost.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: it can't be written.
        """

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        """Write over a document only if it is still the version that was read (compare-and-swap).

        Args:
            path: The document.
            data: Its new content; different writers have to write different contents, as an equal
                one is taken for the writer's own.
            tag: Version tag of the document that is to be replaced.

        Returns:
            The new version tag; None if the document was changed or deleted meanwhile. After None
            the write may still have taken place: its answer was lost, the request was repeated, and
            another writer came in between. Who needs to know reads the document.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: it can't be written.
        """

    def copy(self, source: str, path: str) -> None:
        """Make an immutable file available under a second path, by a link or a copy.

        The content does not pass through this process where the store can avoid it. Nothing is done
        if the second path exists.

        Raises:
            FileNotFoundError: There is no such file.
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: it can't be linked or copied.
        """

    def delete(self, path: str) -> None:
        """Delete a document; nothing happens if it does not exist.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
            OSError: On this machine: it can't be deleted.
        """

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all documents below it; nothing happens if it does not exist.

        With :attr:`deletes_at_once` readers see all of the folder or nothing, even after a crash;
        without it documents are deleted one after the other. On this machine what can't be deleted
        stays, without an error.

        Raises:
            UnavailableError: The store does not answer.
            InputError: The store refuses, for example without permission.
        """


class LocalDocuments:
    """Documents on a file system of this machine; each write is atomic and durable (``fsync``)."""

    deletes_at_once = True

    @property
    def delta_options(self) -> None:
        """None: delta-rs opens a local table by its path alone."""

    def read(self, path: str) -> Document | None:
        """Return a document; None if it does not exist.

        Raises:
            OSError: It exists and can't be read.
        """
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                return Document(file.read(), _tag(status), status.st_mtime_ns // 1_000_000)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder of this path.

        False as well where this user may not look.
        """
        return os.path.exists(path)

    def age_ms(self, path: str) -> int | None:
        """Return how long ago a document was written, in ms; None if it does not exist.

        Never negative, even if the clock was set back.

        Raises:
            OSError: It can't be examined.
        """
        try:
            return max(now_ms() - os.stat(path).st_mtime_ns // 1_000_000, 0)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def listing(self, folder: str) -> list[Listed]:
        """Return all documents of a folder and of the folders in it, sorted by path.

        Empty if the folder does not exist. Temporary files of writers are among them.

        Raises:
            OSError: A folder can't be listed.
        """
        found = []
        for place, _, names in os.walk(folder, onerror=_raise_unless_gone):
            for name in names:
                path = os.path.join(place, name)
                # Temporary files may vanish while the folder is listed.
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(path)
                    found.append(Listed(path, status.st_size, status.st_mtime_ns // 1_000_000))
        return sorted(found)

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder, sorted; empty if it is missing.

        Raises:
            OSError: The folder can't be listed.
        """
        try:
            with os.scandir(folder) as entries:
                return sorted(each.name for each in entries if each.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def put(self, path: str, data: bytes) -> str:
        """Write a document, over an existing one if there is one; return its version tag.

        Raises:
            OSError: It can't be written; then nothing is left behind.
        """
        with _temporary(path, data) as (written, tag):
            written.replace(path)
        _sync(path)
        return tag

    def put_if_absent(self, path: str, data: bytes) -> str | None:
        """Write a document unless it exists; return its version tag, or None if another is there.

        A document with the same content counts as written by this call.

        Raises:
            OSError: It can't be written; then nothing is left behind.
        """
        with _temporary(path, data) as (written, tag):
            try:
                # A hard link is refused if the name exists, on every POSIX file system.
                os.link(written, path)
            except FileExistsError:
                there = self.read(path)
                return there.tag if there is not None and there.data == data else None
        _sync(path)
        return tag

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        """Write over a document if it is still the version that was read.

        Waits while another process replaces a document of the same folder.

        Returns:
            The new version tag; None if the document was changed or deleted meanwhile.

        Raises:
            OSError: It can't be written; then nothing is left behind.
        """
        if not os.path.exists(path):
            return None
        # File systems have no compare-and-swap, so each replacement locks the folder.
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            there = self.read(path)
            return self.put(path, data) if there is not None and there.tag == tag else None
        finally:
            os.close(folder)

    def copy(self, source: str, path: str) -> None:
        """Link a file under a second path, or copy it where links fail; no change if that exists.

        Raises:
            FileNotFoundError: There is no such file.
            OSError: It can't be linked or copied.
        """
        if os.path.exists(path):
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(source, path)
        except FileNotFoundError:
            raise
        except OSError:
            # Another file system, or one without links.
            with _beside(path) as part:
                shutil.copyfile(source, part)
                part.replace(path)

    def delete(self, path: str) -> None:
        """Delete a document; nothing happens if it does not exist.

        Raises:
            OSError: It can't be deleted.
        """
        Path(path).unlink(missing_ok=True)

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all that is in it; errors are ignored, so that parts may stay.

        It is renamed first, so that nobody finds a part of it under its name.
        """
        parent, name = os.path.split(folder.rstrip("/"))
        aside = os.path.join(parent, f".{name}.deleted")
        shutil.rmtree(aside, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rename(folder, aside)
        for each in (folder, aside):
            shutil.rmtree(each, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Create a folder with those above it, if missing, so that they survive a power failure.

    Raises:
        OSError: It can't be created.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(str(folder))


def _tag(status: os.stat_result) -> str:
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


@contextlib.contextmanager
def _temporary(path: str, data: bytes) -> Iterator[tuple[Path, str]]:
    """Write content to a file next to a document, and yield its path with its version tag."""
    with _beside(path) as temporary:
        with temporary.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
            tag = _tag(os.fstat(out.fileno()))
        yield temporary, tag


@contextlib.contextmanager
def _beside(path: str) -> Iterator[Path]:
    """Yield a free name next to a document; a file of it that is left at the end is removed."""
    target = Path(path)
    make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync(path: str) -> None:
    """Make a name survive a power failure: it is kept in the folder above, not in what it names."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
