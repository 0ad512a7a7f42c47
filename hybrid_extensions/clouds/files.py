"""Files in Azure Data Lake and Google Cloud Storage: login, retries, outage or refusal.

Credentials and addresses come from the environment, where obstore looks for them
(https://developmentseed.org/obstore/latest/authentication/), never from a pipeline's file.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError, GenericError, PreconditionError
from obstore.store import AzureStore, GCSStore

from sources.errors import HybridError, InputError, UnavailableError
from sources.storage.base import Children, File, table_of, tail_of
from sources.storage.settings import HdfsSettings

if TYPE_CHECKING:
    from obstore import ObjectMeta

_WORKERS = 32
_BUFFER = 1024 * 1024
"""Bytes that one request reads at least."""
_LOGIN = ("AZURE_", "GOOGLE_")
_ENDPOINTS = {
    "abfss": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
}
"""Variables in which obstore finds the address of another server, such as an emulator."""
_CREDENTIALS = {
    "abfss": (
        "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID with "
        "AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
    ),
    "gs": "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS, the path of a key file",
}
_ADDRESS = re.compile(r"abfss://[^/@]+@[^/@]+|gs://[^/@]+")
_FOLDER_MARK = "hdi_isfolder"
"""Metadata by which Azure marks an object that stands for a folder."""

REFUSALS = (BaseError, OSError, ValueError)
"""What obstore raises where a store does not answer, or refuses."""
_NO_CONTAINER = {"ContainerNotFound", "ContainerBeingDeleted", "NoSuchBucket"}
_THROTTLED = {408, 429}
_STATUS = re.compile(r"status code: (\d{3}) ?([^:\n]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^\n<]+)")
_QUERY = re.compile(r"\?\S+")
_METADATA_SERVER = "http://169.254.169.254"


class ObstoreStorage:
    """Storage of ``abfss://`` and ``gs://`` paths, for files of sources; connects at first use."""

    def children(self, folder: str) -> Children:
        """Return the objects and folders directly in a folder (prefix); none if there are none.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such container or bucket, or no permission.
        """
        base, key = split(folder)
        try:
            found = obstore.list_with_delimiter(connect(folder), key or None)
        except REFUSALS as error:
            raise store_error(folder, "listed", error) from None
        names = set(found["common_prefixes"])
        files = (
            _described(base, each)
            for each in found["objects"]
            # Other clients write empty objects that stand for folders.
            if each["size"] or each["path"] not in {key, *names}
        )
        return Children([f"{base}/{name}" for name in sorted(names)], table_of(files))

    def version(self, _: str) -> Sequence[int]:
        """Return nothing: prefixes of objects have no version."""
        return ()

    def stat(self, paths: Sequence[str]) -> Iterator[File | None]:
        """Yield size, modification time and ETag of each object as it is now, in the given order.

        None stands for an object that does not exist, or a folder. Up to 32 objects are asked for
        at once.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        with ThreadPoolExecutor(_WORKERS) as pool:
            yield from pool.map(_file, paths)

    def open(self, path: str) -> pa.NativeFile:
        """Open an object for reading at any position; the caller closes it.

        Raises:
            FileNotFoundError: The object does not exist.
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, or there are no credentials.
        """
        if (found := head(path, "opened")) is None:
            raise FileNotFoundError(path)
        return pa.PythonFile(io.BufferedReader(_Object(path, found), _BUFFER), mode="r")

    def tail(self, path: str, size: int) -> bytes:
        """Return the last bytes of an object, all of them if it is shorter.

        Args:
            path: The object.
            size: Number of bytes.

        Raises:
            FileNotFoundError: The object does not exist.
            OSError, UnavailableError, InputError: As :meth:`open`.
        """
        if (found := head(path, "opened")) is None:
            raise FileNotFoundError(path)
        # Not with one request: Azure knows no range from the end.
        with pa.PythonFile(_Object(path, found), mode="r") as file:
            return tail_of(file, size)

    def uri(self, path: str) -> str:
        """Return the URI by which Spark reads a path: the path itself, with its key quoted."""
        base, key = split(path)
        return f"{base}/{quote(key)}"


class _Object(io.RawIOBase):
    """An object as Arrow reads it; one that changes meanwhile is an error."""

    def __init__(self, path: str, found: ObjectMeta) -> None:
        self._path, self._size, self._tag, self._at = path, found["size"], found["e_tag"], 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        store, (_, key) = connect(self._path), split(self._path)
        try:
            found = obstore.get(
                store, key, options={"range": (self._at, end), "if_match": self._tag}
            ).bytes()
        except PreconditionError:
            message = f"{self._path} was written over while it was read"
            raise OSError(message) from None
        except (BaseError, ValueError) as error:
            raise OSError(_reason(error)) from None
        buffer[: len(found)] = memoryview(found)
        self._at += len(found)
        return len(found)


def connect(path: str) -> AzureStore | GCSStore:
    """Return the client for the container or bucket of a path; callers with one login share it.

    Nothing is connected yet. It repeats a failed request up to four times.

    Args:
        path: ``abfss://container@account.dfs.core.windows.net/key`` or ``gs://bucket/key``.

    Raises:
        InputError: The path names no container or bucket, or the login is wrong.
        UnavailableError: The store does not answer.
    """
    base, _ = split(path)
    if not _ADDRESS.fullmatch(base):
        message = f"`{path}` does not name a container of a storage account, or a bucket."
        hint = "Write abfss://container@account.dfs.core.windows.net/path, or gs://bucket/path."
        raise InputError(message, hint, file=path)
    # Variables may change while a process runs.
    login = {name: value for name, value in os.environ.items() if name.startswith(_LOGIN)}
    try:
        return _client(base, tuple(sorted(login.items())))
    except REFUSALS as error:
        raise store_error(path, "opened", error) from None


@cache
def _client(base: str, _login: tuple[tuple[str, str], ...]) -> AzureStore | GCSStore:
    kind = AzureStore if base.startswith("abfss://") else GCSStore
    return kind.from_url(
        base,
        # A large answer may take long, as long as it goes on.
        client_options={
            "allow_http": is_plain_http(base),
            "timeout": timedelta(minutes=10),
            # A silent store is named before a supervision's look is given up, as with S3.
            "read_timeout": timedelta(seconds=10),
        },
        retry_config={"max_retries": 4, "retry_timeout": timedelta(seconds=30)},
    )


def is_plain_http(path: str) -> bool:
    """Return whether the environment names a server without TLS for a path's store.

    Such as an emulator.
    """
    return (_endpoint(path) or "").startswith("http://")


def _endpoint(path: str) -> str | None:
    names = _ENDPOINTS[path.partition("://")[0]]
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def head(path: str, what: str = "examined") -> ObjectMeta | None:
    """Return the metadata of an object; None if there is none.

    Args:
        path: The object.
        what: What could not be done if the store refuses, for the message.

    Raises:
        InputError: The store refuses.
        UnavailableError: The store does not answer.
    """
    _, key = split(path)
    if not key:
        return None
    try:
        return obstore.head(connect(path), key)
    except REFUSALS as error:
        if is_missing(error):
            return None
        raise store_error(path, what, error) from None


def is_folder(path: str) -> bool:
    """Return whether Azure marks an object as a folder; False if there is no such object.

    Raises:
        UnavailableError: The store does not answer, or can't serve the request at the moment.
        InputError: The store refuses.
    """
    _, key = split(path)
    try:
        return _FOLDER_MARK in obstore.get(connect(path), key).attributes
    except REFUSALS as error:
        if is_missing(error):
            return False
        raise store_error(path, "examined", error) from None


def _file(path: str) -> File | None:
    found = head(path)
    if found is None or (not found["size"] and path.startswith("abfss://") and is_folder(path)):
        return None
    return _described(split(path)[0], found)


def split(path: str) -> tuple[str, str]:
    """Return the URL of a path's container or bucket, and the key, which may be empty.

    The key has no slash at its end.
    """
    scheme, _, rest = path.partition("://")
    container, _, key = rest.partition("/")
    return f"{scheme}://{container}", key.rstrip("/")


def is_missing(error: Exception) -> bool:
    """Return whether a store answered that there is no such object, in an existing container.

    The answer to a HEAD names no reason: there a missing container counts as a missing object.

    Args:
        error: What obstore raised.
    """
    return isinstance(error, FileNotFoundError) and _code(error) not in _NO_CONTAINER


def store_error(path: str, what: str, why: Exception) -> HybridError:
    """Return the error to raise where a store refuses or does not answer.

    Args:
        path: File or folder.
        what: What can't be done with it: a participle, such as ``listed``.
        why: What obstore raised.

    Returns:
        An :class:`UnavailableError` if waiting may help (no connection, throttling, status 5xx),
        otherwise an :class:`InputError`.
    """
    scheme, _, rest = path.partition("://")
    authority = rest.partition("/")[0].rpartition("@")[2]
    where = _endpoint(path) or (authority if scheme == "abfss" else "Google Cloud Storage")
    message = f"{path} can't be {what} at {where}: {_reason(why).rstrip('.')}."
    if _is_outage(why):
        hint = (
            f"Check that {where} can be reached from this machine ("
            f"{' or '.join(_ENDPOINTS[scheme])} names another address), then try again."
        )
        return UnavailableError(message, hint, server=where, file=path)
    hint = (
        f"Correct the path. If it is right, set other credentials ({_CREDENTIALS[scheme]}), or "
        "grant those in use permission to list and read the path, and, in a state folder or a "
        "table that is written to, also to write and delete."
    )
    return InputError(message, hint, server=where, file=path)


def _is_outage(error: Exception) -> bool:
    """Return whether a store did not answer, or can't serve the request at the moment."""
    text = str(error)
    if status := _STATUS.search(text):
        return int(status[1]) >= 500 or int(status[1]) in _THROTTLED
    # Without credentials the machine's own are asked for, which only the cloud's machines have.
    is_answerable = _METADATA_SERVER not in text and "builder error" not in text
    return isinstance(error, GenericError) and "HTTP error" in text and is_answerable


def _reason(error: Exception) -> str:
    """Return the first line of an error without what may hold a signature: a URL's query."""
    text = str(error)
    message = _MESSAGE.search(text)
    if (status := _STATUS.search(text)) is None:
        return _QUERY.sub("", text.partition("\n")[0])
    answer = ": ".join(filter(None, (_code(error), message and message[1].strip())))
    asked = "request for a token: " if "token request" in text else ""
    return f"{asked}{status[1]} {status[2].strip()}" + (f", {answer}" if answer else "")


def _code(error: Exception) -> str | None:
    found = _CODE.search(str(error))
    return found[1] if found else None


def modified_ms(found: ObjectMeta) -> int:
    """Return when an object was written, in ms since 1970, by the store's clock."""
    return int(found["last_modified"].timestamp() * 1000)


def _described(base: str, found: ObjectMeta) -> File:
    tag = (found["e_tag"] or "").strip('"') or None
    return File(f"{base}/{found['path']}", found["size"], modified_ms(found) * 1_000_000, tag)


def files_of(_: HdfsSettings) -> ObstoreStorage:
    """Return the storage of both clouds, which are configured by the environment alone.

    Called by the registry of stores; nothing is connected yet.
    """
    return ObstoreStorage()
