"""Interface of a storage: list a folder, open a file, find out whether it has changed.

Paths are absolute: ``/folder/file`` on this machine, ``s3://bucket/key`` in an object store,
``hdfs://namenode/folder/file`` in HDFS.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from stat import S_ISREG
from typing import NamedTuple, Protocol
from urllib.parse import quote

import pyarrow as pa

from sources.errors import InputError

FILES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),  # bytes
        ("modified_ns", pa.int64()),  # null where not known
        ("etag", pa.string()),  # null where the storage has none
    ]
)
"""Columns of a table of files; each row is a file."""
_CHUNK_ROWS = 100_000


class File(NamedTuple):
    """A file as its storage describes it, without its content.

    Attributes:
        path: Absolute path or URL.
        size: Size in bytes.
        modified_ns: Modification time in Unix nanoseconds; None where not known.
        etag: The store's tag of the content; None where the storage has none.
    """

    path: str
    size: int
    modified_ns: int | None
    etag: str | None


@dataclass(frozen=True)
class Children:
    """Content of a folder, without that of folders in it.

    Attributes:
        folders: Absolute paths of the folders directly in it.
        files: The files directly in it: a table of schema :data:`FILES`.
    """

    folders: list[str]
    files: pa.Table


class Storage(Protocol):
    """A storage of files (local disks, object store, HDFS); safe to use from several threads.

    Made by :class:`sources.storage.stores.Stores` at its first use in a process, on the driver and
    in tasks.
    """

    def children(self, folder: str) -> Children:
        """Return the files and folders directly in a folder; none if it does not exist.

        Args:
            folder: Absolute path.

        Raises:
            UnavailableError: The storage does not answer.
            InputError: The folder can't be listed, for example without permission.
        """

    def version(self, folder: str) -> Sequence[int]:
        """Return what differs once names in a folder have changed; empty if nothing tells.

        So it is in an object store, which has no folders, and without such a folder.

        Raises:
            UnavailableError: The storage does not answer.
        """

    def stat(self, paths: Sequence[str]) -> Iterator[File | None]:
        """Yield size, modification time and ETag of each file as it is now, in the given order.

        None is yielded for a path that does not exist, or is a folder.

        Args:
            paths: Absolute paths.

        Raises:
            UnavailableError: The storage does not answer.
            InputError: A file can't be examined, for example without permission.
        """

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position; the caller closes it.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError: The file can't be opened for another reason.
            UnavailableError: The storage does not answer.
            InputError: The storage refuses.
        """

    def tail(self, path: str, size: int) -> bytes:
        """Return the last bytes of a file, all of them if it is shorter.

        Args:
            path: Absolute path.
            size: Number of bytes.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError: The file can't be read for another reason.
            UnavailableError: The storage does not answer.
            InputError: The storage refuses.
        """

    def uri(self, path: str) -> str:
        """Return a path as the URI by which Spark's Hadoop client reads it; nothing is asked."""


def tail_of(file: pa.NativeFile, size: int) -> bytes:
    """Return the last bytes of an open file, all of them if it is shorter.

    Args:
        file: The file; it stays open.
        size: Number of bytes.

    Raises:
        OSError: It can't be read.
    """
    file.seek(max(file.size() - size, 0))
    return bytes(file.read(size))


def hadoop_path(path: str) -> str:
    """Return an absolute path as Hadoop's clients take it: they have ``s3a`` for ``s3``.

    All others are returned as they are.
    """
    return f"s3a{path[2:]}" if path.startswith("s3://") else path


def table_of(files: Iterable[File]) -> pa.Table:
    """Collect files into a table of schema :data:`FILES`; in chunks, to save memory for many.

    In their order; a table without rows for no file.
    """
    chunks: list[pa.RecordBatch] = []
    rows: list[File] = []

    def flush() -> None:
        columns = zip(*rows, strict=True) if rows else [[] for _ in FILES]
        arrays = [pa.array(values, kind.type) for values, kind in zip(columns, FILES, strict=True)]
        chunks.append(pa.record_batch(arrays, schema=FILES))
        rows.clear()

    for file in files:
        rows.append(file)
        if len(rows) == _CHUNK_ROWS:
            flush()
    flush()
    return pa.Table.from_batches(chunks)


def _require_text(folder: str, name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(name).decode(errors="backslashreplace")
        message = (
            f"Folder {folder} has a name in it that is no UTF-8 text, as Spark needs: {shown}."
        )
        hint = "Rename the file or folder, or move it elsewhere if it does not belong there."
        raise InputError(message, hint, file=folder) from None


class LocalStorage:
    """File systems of this machine."""

    def children(self, folder: str) -> Children:
        """Return the files and folders directly in a folder; none if it does not exist.

        Links are followed; what is neither, such as a broken link, is left out, and so is a file
        that is gone by now, such as one that its writer has renamed.

        Raises:
            InputError: The folder can't be listed, for example without permission; or a name in it
                is no text.
        """
        folders: list[str] = []

        def files() -> Iterator[File]:
            with os.scandir(folder) as entries:
                for entry in entries:
                    _require_text(folder, entry.name)
                    if entry.is_dir():
                        folders.append(entry.path)
                    elif entry.is_file():
                        with suppress(FileNotFoundError):
                            yield _described(entry.path, entry.stat())

        try:
            return Children(folders, table_of(files()))
        except (FileNotFoundError, NotADirectoryError):
            return Children([], table_of([]))
        except OSError as error:
            message = f"Folder {folder} can't be listed: {error.strerror}."
            hint = (
                "Let the user that runs this command read the folder and enter it (`chmod`, or its "
                "owner), or correct the path."
            )
            raise InputError(message, hint, file=folder) from None

    def version(self, folder: str) -> Sequence[int]:
        """Return inode and modification time of a folder; empty if it does not exist."""
        with suppress(OSError):
            status = os.stat(folder)
            return status.st_ino, status.st_mtime_ns
        return ()

    def stat(self, paths: Sequence[str]) -> Iterator[File | None]:
        """Yield size and modification time of each file as it is now, lazily, in the given order.

        None is yielded for a path that does not exist, or is no regular file. ``etag`` is None.

        Raises:
            InputError: A file can't be examined, for example without permission; raised while
                iterating, after the files before it.
        """
        for path in paths:
            try:
                status = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                yield None
            except OSError as error:
                message = f"File {path} can't be examined: {error.strerror}."
                hint = "Let the user that runs this command enter its folder, then try again."
                raise InputError(message, hint, file=path) from None
            else:
                yield _described(path, status) if S_ISREG(status.st_mode) else None

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position; the caller closes it.

        Raises:
            OSError: The file does not exist (``FileNotFoundError``), or can't be opened.
        """
        return pa.OSFile(path)

    def tail(self, path: str, size: int) -> bytes:
        """Return the last bytes of a file, all of them if it is shorter.

        Raises:
            OSError: The file does not exist (``FileNotFoundError``), or can't be read.
        """
        # Arrow's way to open a file makes more system calls than all that is done here.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, size, max(os.fstat(file).st_size - size, 0))
        finally:
            os.close(file)

    def uri(self, path: str) -> str:
        """Return the ``file://`` URI of a path, percent-encoded, as Spark reads it."""
        return f"file://{quote(path)}"


def _described(path: str, status: os.stat_result) -> File:
    return File(path, status.st_size, status.st_mtime_ns, None)
