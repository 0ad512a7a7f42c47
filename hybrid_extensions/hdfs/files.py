"""Files in HDFS, read without a JVM: namenode and user as Hadoop finds them; refusals and outages.

It finds namenodes and user as Hadoop's own client does: by ``HADOOP_CONF_DIR``,
``HADOOP_USER_NAME`` and a Kerberos ticket
(https://hadoop.apache.org/docs/r3.5.0/hadoop-project-dist/hadoop-hdfs/HdfsUserGuide.html).
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pyarrow as pa

from sources.common.optional import needs_extra
from sources.errors import HybridError, InputError, UnavailableError
from sources.storage.base import Children, File, table_of, tail_of
from sources.storage.settings import HdfsSettings

with needs_extra("hdfs", "An `hdfs://` path"):
    from hdfs_native import Client, FileReader, FileStatus

_WORKERS = 32
_PORT = 8020
# Errors are written <kind>("<message>") or RPCError("<class>", "<message>"), followed by Java's
# stack trace, or a description of each datanode.
_ANSWER = re.compile(r'\w+\((?:"[\w.$]+", )?"(.*?)(?:"\))?$')
_REST = re.compile(r"\n|\\n|: \[")


class HdfsStorage:
    """Storage of ``hdfs://`` paths, for files of sources: all HDFS clusters that they name.

    It connects at first use, so that an unknown namenode raises UnavailableError there; it can be
    pickled, and the copy connects itself.

    Args:
        settings: Default namenode and properties of the client.
    """

    def __init__(self, settings: HdfsSettings) -> None:
        self._settings = settings
        self._clients: dict[str, Client] = {}

    def __reduce__(self) -> tuple[type[HdfsStorage], tuple[HdfsSettings]]:
        # Clients are not passed on: each process has its own.
        return HdfsStorage, (self._settings,)

    def children(self, folder: str) -> Children:
        """Return the files and folders directly in a folder; none of either if it does not exist.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        namenode, path = split(folder)
        folders: list[str] = []

        def files() -> Iterator[File]:
            for status in self._client(namenode).list_status(path):
                if status.isdir:
                    folders.append(f"hdfs://{namenode}{status.path}")
                # A file's own listing is itself.
                elif status.path != path:
                    yield _described(namenode, status)

        try:
            return Children(folders, table_of(files()))
        except FileNotFoundError:
            return Children([], table_of([]))
        except (OSError, RuntimeError) as error:
            raise store_error(folder, "listed", error) from None

    def version(self, folder: str) -> Sequence[int]:
        """Return the modification time of a folder, in ms; empty if it does not exist.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        found = self._found(folder, "listed")
        return () if found is None else (found.modification_time,)

    def stat(self, paths: Sequence[str]) -> Iterator[File | None]:
        """Yield size and modification time of each file as it is now, in the given order.

        None stands for a path that does not exist, or is a folder; there is no ETag. Up to 32 files
        are asked for at once.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        with ThreadPoolExecutor(_WORKERS) as pool:
            yield from pool.map(self._status, paths)

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position; the caller closes it.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError: The cluster refuses; the text is its reason.
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses with a ``PermissionError``.
        """
        namenode, plain = split(path)
        try:
            return pa.PythonFile(_File(self._client(namenode).read(plain)), mode="r")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise store_error(path, "opened", error) from None
        except RuntimeError as error:
            raise OSError(_reason(error)) from None

    def tail(self, path: str, size: int) -> bytes:
        """Return the last bytes of a file, all of them if it is shorter.

        Args:
            path: The file.
            size: Number of bytes.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError, UnavailableError, InputError: As :meth:`open`.
        """
        with self.open(path) as file:
            return tail_of(file, size)

    def uri(self, path: str) -> str:
        """Return the ``hdfs://`` URI of a path, as Spark reads it."""
        namenode, plain = split(path)
        return f"hdfs://{namenode}{quote(plain)}"

    def _status(self, path: str) -> File | None:
        status = self._found(path, "examined")
        return None if status is None or status.isdir else _described(split(path)[0], status)

    def _found(self, path: str, what: str) -> FileStatus | None:
        namenode, plain = split(path)
        try:
            return self._client(namenode).get_file_info(plain)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError) as error:
            raise store_error(path, what, error) from None

    def _client(self, namenode: str) -> Client:
        if namenode not in self._clients:
            self._clients[namenode] = connect(namenode, self._settings)
        return self._clients[namenode]


class _File(io.RawIOBase):
    """A file as Arrow reads it; reading beyond the end is no error, as with a local file."""

    def __init__(self, reader: FileReader) -> None:
        self._reader, self._size, self._at = reader, len(reader), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(self._size - self._at, 0)
        try:
            found = self._reader.read_range(self._at, left if size < 0 else min(size, left))
        except RuntimeError as error:
            raise OSError(_reason(error)) from None
        self._at += len(found)
        return found


def connect(namenode: str, settings: HdfsSettings) -> Client:
    """Return a client for a cluster, without connecting to it.

    Args:
        namenode: ``host`` (with port 8020), ``host:port``, or a name service.
        settings: Default namenode and properties of the client.

    Raises:
        RuntimeError: The namenode is not an address.
    """
    url, conf = f"hdfs://{namenode}", settings.client_conf
    try:
        return Client(url, conf)
    except RuntimeError:
        # Without a port it has to be a name service that the configuration knows.
        if ":" in namenode:
            raise
        return Client(f"{url}:{_PORT}", conf)


def split(path: str) -> tuple[str, str]:
    """Return the namenode of an ``hdfs://`` path, and the path in its cluster, from ``/``.

    The namenode is empty for ``hdfs:///path``, which means the default one.
    """
    namenode, _, plain = path.removeprefix("hdfs://").partition("/")
    return namenode, f"/{plain}"


def _described(namenode: str, status: FileStatus) -> File:
    path = f"hdfs://{namenode}{status.path}"
    return File(path, status.length, status.modification_time * 1_000_000, None)


def _reason(error: Exception) -> str:
    text = _REST.split(str(error))[0]
    answer = _ANSWER.match(text)
    return answer[1].replace('\\"', '"') if answer else text


def store_error(path: str, what: str, error: Exception) -> HybridError:
    """Return the error to raise where an HDFS cluster refuses or does not answer.

    Args:
        path: File or folder.
        what: What can't be done with it: a participle, such as ``listed``.
        error: What the client raised: ``OSError`` without a connection, ``RuntimeError`` for an
            answer of the cluster.

    Returns:
        An :class:`UnavailableError` if the cluster does not answer, otherwise an
        :class:`InputError`; a ``PermissionError`` is an answer, too. Nothing is raised here.
    """
    message = f"{path} can't be {what}: {_reason(error)}."
    namenode, _ = split(path)
    if isinstance(error, OSError) and not isinstance(error, PermissionError):
        hint = (
            f"Check that the namenode {namenode} runs and that this is its address (host:port; a "
            "name service needs HADOOP_CONF_DIR or `hdfs.conf`), then try again."
        )
        return UnavailableError(message, hint, server=namenode, file=path)
    hint = (
        f"Correct the path, the namenode {namenode} (host:port; a name service needs "
        "HADOOP_CONF_DIR or `hdfs.conf`), or the user (HADOOP_USER_NAME, or a Kerberos ticket), or "
        "grant this user permission to read the path."
    )
    return InputError(message, hint, server=namenode, file=path)


def files_of(settings: HdfsSettings) -> HdfsStorage:
    """Return the storage of all HDFS clusters; nothing is connected yet.

    Called by the registry of stores.
    """
    return HdfsStorage(settings)
