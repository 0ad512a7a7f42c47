"""Folder in any store: documents read and written in one step; a full disk; how often to ask."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from sources.common.state_document import Record
from sources.errors import InputError, StateError
from sources.storage.base import hadoop_path
from sources.storage.documents import Document, DocumentStore, LocalDocuments

R = TypeVar("R", bound=Record)
_TO_WRITE = "Free space, or make the folder writable, then try again: completed steps are skipped."
_TO_READ = (
    "Let the user of this process read the file, or restore it from a backup of the state folder, "
    "then try again."
)
_TO_LIST = (
    "Let the user of this process list the folder and those above it, or correct the path where it "
    "is declared, then try again."
)
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a disk that is full, which may have space again by itself."""
_MIN_FREE = 64 * 1024  # bytes; below that not even a few small documents can be written
_PACE_S = 10.0
_LOCAL = LocalDocuments()


class Folder:
    """Folder of small files of the state, each written atomically and durably.

    A reader sees all of the old content of a file or all of the new one. Methods that write raise
    StateError if the folder can't be written; where it is in an object store or in HDFS, all of
    them raise UnavailableError if that does not answer, and InputError if it refuses.

    Args:
        root: Absolute path, or URL.
        documents: Store that the path is in; this machine's file systems if left out.

    Attributes:
        url: The path or URL, without a slash at its end.
        documents: The store.
    """

    def __init__(self, root: Path | str, documents: DocumentStore = _LOCAL) -> None:
        self.url = str(root).rstrip("/")
        if documents is _LOCAL and not self.is_local:
            message = f"{self.url} is a URL: its store has to be given."
            raise ValueError(message)
        self.documents = documents
        self._kind = "state folder"

    def __str__(self) -> str:
        return self.url

    @property
    def root(self) -> Path:
        """Local path of the folder.

        Raises:
            InputError: The folder is not on a file system of this machine.
        """
        return self.path("")

    @property
    def name(self) -> str:
        """Last part of the folder's path."""
        return self.url.rpartition("/")[2]

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a file system of this machine."""
        return "://" not in self.url

    @property
    def pace_s(self) -> float:
        """Minimum seconds between regular reads: 0 if local, else 10, because reads cost money."""
        return 0.0 if self.is_local else _PACE_S

    @property
    def poll_s(self) -> float:
        """Minimum seconds between reads while one waits for a change: 0 if local, else 1."""
        return self.pace_s / 10

    @property
    def hadoop_path(self) -> str:
        """Path or URL of the folder as Spark and Hadoop take it: ``s3://`` becomes ``s3a://``."""
        return hadoop_path(self.url)

    def called(self, kind: str) -> Folder:
        """Return the same folder, which errors call by another name than "state folder".

        Args:
            kind: The name, such as "target folder". Folders made by :meth:`folder` don't inherit
                it.
        """
        made = Folder(self.url, self.documents)
        made._kind = kind
        return made

    def location(self, name: str) -> str:
        """Return the absolute path or URL of a file of the folder; the file need not exist.

        Args:
            name: Path of the file, relative to the folder.
        """
        return f"{self.url}/{name}"

    def folder(self, name: str) -> Folder:
        """Return the subfolder of a name, in the same store; it need not exist.

        The name may have several parts, with slashes.
        """
        return Folder(self.location(name), self.documents)

    def name_in(self, other: Folder) -> str | None:
        """Return this folder's path relative to another one; None if it is not inside it.

        None for the same folder, too.
        """
        start = f"{other.url}/"
        return self.url.removeprefix(start) if self.url.startswith(start) else None

    def sibling(self, ending: str) -> Folder:
        """Return the folder whose path is this one's with a suffix; it need not exist.

        Args:
            ending: The suffix, such as ``.g2``.
        """
        return Folder(f"{self.url}{ending}", self.documents)

    def path(self, name: str) -> Path:
        """Return the local path of a file of the folder, whether it exists or not.

        Raises:
            InputError: The folder is not on a file system of this machine.
        """
        if not self.is_local:
            message = f"{self.location(name).rstrip('/')} is needed as a file on this machine."
            raise InputError(message, "Declare `state` as a local folder.", file=self.url)
        return Path(self.url) / name

    def exists(self, name: str) -> bool:
        """Return whether there is a file of this name.

        True for a folder as well, on this machine.

        Raises:
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        return self.documents.exists(self.location(name))

    def names(self, pattern: str) -> list[str]:
        """Return the files in the folder and below that match a pattern, sorted, relative to it.

        Empty if none does, or if there is no folder. Temporary files of writers on this machine,
        whose names begin with a dot, are among them.

        Args:
            pattern: Such as ``positions/*-end.json``; ``*`` stands for any characters, also for
                slashes.

        Raises:
            StateError: The folder exists and can't be listed.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        # Only the part that has no wildcard is asked for.
        start = re.split(r"[*?\[]", pattern)[0].rpartition("/")[0]
        place = self.location(start) if start else self.url
        begin = len(self.url) + 1
        with _reading(place, "Folder", "listed", _TO_LIST):
            found = [each.path[begin:] for each in self.documents.listing(place)]
        return [name for name in found if fnmatchcase(name, pattern)]

    def is_empty(self) -> bool:
        """Return whether there is no file in the folder or below; True if there is no folder.

        Raises:
            StateError: The folder exists and can't be listed.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        with _reading(self.url, "Folder", "listed", _TO_LIST):
            return not self.documents.listing(self.url)

    def folders(self) -> list[str]:
        """Return the names of the folders directly in this one, sorted; empty if it is missing.

        Raises:
            StateError: The folder exists and can't be listed.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        with _reading(self.url, "Folder", "listed", _TO_LIST):
            return self.documents.folders(self.url)

    def document(self, name: str) -> Document | None:
        """Return a file of the folder with its version tag; None if it does not exist.

        Raises:
            StateError: The file exists and can't be read (transient unless it is no file, or this
                user may not read it).
        """
        place = self.location(name)
        with _reading(place, "File", "read", _TO_READ):
            return self.documents.read(place)

    def read_bytes(self, name: str) -> bytes | None:
        """Return the content of a file of the folder; None if it does not exist.

        Raises:
            StateError, UnavailableError, InputError: As of :meth:`document`.
        """
        found = self.document(name)
        return None if found is None else found.data

    def read(self, name: str, kind: type[R]) -> R | None:
        """Return a versioned document; None if it does not exist.

        Args:
            name: Path of its file, relative to the folder.
            kind: Type of the document.

        Raises:
            StateError: The document has an unknown version or is damaged, or as of
                :meth:`document`.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        text = self.read_bytes(name)
        return None if text is None else kind.parse(text, self.location(name))

    def replace(self, name: str, document: Record) -> None:
        """Write a document, over an existing one if there is one, in one atomic step.

        Raises:
            StateError: The folder can't be written.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        self.replace_bytes(name, _encoded(document))

    def replace_bytes(self, name: str, data: bytes) -> None:
        """Write a file, over an existing one if there is one, in one atomic step.

        Raises:
            StateError: The folder can't be written.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        with self.writing():
            self.documents.put(self.location(name), data)

    def put_if_absent(self, name: str, document: R) -> R:
        """Write a document unless it exists; of two concurrent writers exactly one wins.

        Returns:
            The document that is there now: for both writers, the winner's.

        Raises:
            StateError: The folder can't be written, the existing document is damaged, or it was
                removed while this was called.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        with self.writing():
            written = self.documents.put_if_absent(self.location(name), _encoded(document))
        if written is not None:
            return document
        if (existing := self.read(name, type(document))) is None:
            place = self.location(name)
            message = f"State file {place} was removed while it was being written."
            hint = "Try again, and don't remove files of a running pipeline."
            raise StateError(message, hint, file=place)
        return existing

    def replace_known(self, name: str, known: R | None, document: R) -> bool:
        """Write a document if the one that is there is still the one that this process knows.

        Of two processes that each take themselves for the only writer so only one writes.

        Args:
            name: Path of its file, relative to the folder.
            known: The document as this process read or wrote it last; None if there was none.
            document: The new one.

        Returns:
            Whether it was written; False if another process has written one since. In a store it
            may be written all the same then, if an answer was lost (:meth:`DocumentStore.replace
            <sources.storage.documents.DocumentStore.replace>`).

        Raises:
            StateError: The folder can't be written, or the existing document is damaged.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        found, place = self.document(name), self.location(name)
        there = None if found is None else type(document).parse(found.data, place)
        if there != known:
            return False
        with self.writing():
            if found is None:
                return self.documents.put_if_absent(place, _encoded(document)) is not None
            return self.documents.replace(place, _encoded(document), found.tag) is not None

    def delete(self, name: str) -> None:
        """Delete a file of the folder; nothing happens if it does not exist.

        Raises:
            StateError: The file can't be deleted.
            UnavailableError, InputError: The store does not answer, or refuses.
        """
        with self.writing():
            self.documents.delete(self.location(name))

    def delete_all(self, require: Callable[[], None] | None = None) -> None:
        """Delete the folder with all that is in it; nothing happens if it does not exist.

        On this machine errors are ignored: what can't be deleted stays.

        Args:
            require: Called before each file is deleted, or before all are in a store that deletes a
                folder in one step; what it raises ends the deletion.

        Raises:
            UnavailableError, InputError: The object store or HDFS does not answer, or refuses.
        """
        if require is not None:
            require()
            for name in [] if self.documents.deletes_at_once else self.names("*"):
                require()
                self.delete(name)
        self.documents.delete_folder(self.url)

    def obstacle(self) -> str | None:
        """Return a phrase that says why nothing can be written here; None if nothing is known.

        Such as "the disk of the state folder /state is full". Nothing is written: it looks whether
        the folder is accessible, writable and has 64 KiB free. Always None for a folder that is not
        on this machine.
        """
        if not self.is_local:
            return None
        try:
            found = os.statvfs(self.url)
        except OSError as error:
            return f"the {self._kind} {self.url} can't be accessed: {error.strerror}"
        if found.f_flag & os.ST_RDONLY or not os.access(self.url, os.W_OK):
            return f"the {self._kind} {self.url} is read-only"
        if found.f_bavail * found.f_frsize < _MIN_FREE:
            return f"the disk of the {self._kind} {self.url} is full"
        return None

    def existing(self) -> Folder:
        """Return this folder, or the nearest one above it that exists; in a store this folder."""
        there = Path(self.url)
        while self.is_local and not there.exists():
            there = there.parent
        return Folder(there, self.documents).called(self._kind) if self.is_local else self

    def require_no_obstacle(self) -> None:
        """Refuse a folder that can't be written or made, as far as that is known without writing.

        Raises:
            StateError: The folder on this machine, or the nearest existing one above it, is no
                folder or can't be written, or its disk is full. In a store none is refused.
        """
        if (why := self.existing().obstacle()) is not None:
            message = f"The {self._kind} {self.url} can't be written: {why}."
            raise StateError(message, _TO_WRITE, file=self.url)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Turn an OSError in the body of ``with``, which writes a file, into a StateError.

        Yields:
            Nothing: the body writes the file.

        Raises:
            StateError: The body raised an OSError; transient if the disk is full.
        """
        try:
            yield
        except OSError as error:
            # Without the path, which may be of a temporary file.
            what = f"[Errno {error.errno}] {error.strerror}"
            message = f"The {self._kind} {self.url} can't be written: {what}."
            is_full = error.errno in FULL
            raise StateError(message, _TO_WRITE, transient=is_full, file=self.url) from error


@contextlib.contextmanager
def _reading(place: str, kind: str, done: str, hint: str) -> Iterator[None]:
    """Turn an OSError in the body of ``with``, which reads or lists, into a StateError.

    A store raises errors of this project by itself.

    Args:
        place: Path of what is read.
        kind: What it is: ``File`` or ``Folder``.
        done: What is done with it, as a participle.
        hint: What to do where that fails.
    """
    try:
        yield
    except OSError as error:
        message = f"{kind} {place} can't be {done}: [Errno {error.errno}] {error.strerror}."
        may_pass = not isinstance(error, PermissionError | IsADirectoryError)
        raise StateError(message, hint, transient=may_pass, file=place) from error


def _encoded(document: Record) -> bytes:
    return document.model_dump_json(indent=2).encode()
