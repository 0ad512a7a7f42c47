"""Documents in Azure Data Lake and Google Cloud Storage: conditional writes, ages, deletes.

Azure compares ETags, Google the number of an object's generation
(https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations,
https://cloud.google.com/storage/docs/request-preconditions).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from hybrid_extensions.clouds.files import (
    REFUSALS,
    ObstoreStorage,
    connect,
    head,
    is_folder,
    is_missing,
    is_plain_http,
    modified_ms,
    split,
    store_error,
)
from sources.errors import HybridError
from sources.storage.documents import Document, Listed
from sources.storage.settings import HdfsSettings

if TYPE_CHECKING:
    from obstore import PutMode

_TRIES = 5
_PAGE = 1000
_PART = 8 * 1024 * 1024
"""Bytes of a file that are in memory at once where it passes through here."""


class ObstoreDocuments:
    """Store of documents (small files with a version tag) of ``abfss://`` or ``gs://`` paths.

    Implements :class:`sources.storage.documents.DocumentStore`; connects at first use.

    Args:
        scheme: ``abfss`` or ``gs``.
    """

    deletes_at_once = False

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme

    @property
    def delta_options(self) -> dict[str, str]:
        """Storage options with which delta-rs opens a Delta table in this store; no credentials.

        delta-rs finds them, and the address of an emulator, in the same variables.
        """
        return {"allow_http": "true"} if is_plain_http(f"{self._scheme}://") else {}

    def read(self, path: str) -> Document | None:
        """Return a document; None if it does not exist.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such container or bucket, or no permission.
        """
        _, key = split(path)
        try:
            found = obstore.get(connect(path), key)
            data = bytes(found.bytes())
        except REFUSALS as error:
            if is_missing(error):
                return None
            raise store_error(path, "read", error) from None
        return Document(data, self._tag(found.meta), modified_ms(found.meta))

    def exists(self, path: str) -> bool:
        """Return whether there is a document of this path, or a folder that the store knows.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        return head(path) is not None

    def age_ms(self, path: str) -> int | None:
        """Return how long ago an object was written, in ms, both by the store's clock.

        Writes and deletes an object next to it, to learn the clock's time.

        Returns:
            The age, of whole seconds; None if there is no such object.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        if (written := head(path)) is None:
            return None
        # obstore keeps the time of an answer for itself; what is written now has it.
        clock = f"{path}.{uuid.uuid4().hex}.clock"
        self.put(clock, b"")
        try:
            now = head(clock)
        finally:
            with suppress(HybridError):
                self.delete(clock)
        # Whoever deleted the clock deletes the folder.
        return None if now is None else max(modified_ms(now) - modified_ms(written), 0)

    def listing(self, folder: str) -> list[Listed]:
        """Return all documents below a prefix, sorted by path; empty if there are none.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such container or bucket, or no permission.
        """
        base, key = split(folder)
        try:
            return sorted(
                Listed(f"{base}/{each['path']}", each["size"], modified_ms(each))
                for page in obstore.list(connect(folder), key or None, chunk_size=_PAGE)
                for each in page
            )
        except REFUSALS as error:
            raise store_error(folder, "listed", error) from None

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder, sorted; empty if there are none.

        They are the parts of keys that follow after the folder's prefix and a slash.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses: no such container or bucket, or no permission.
        """
        found = ObstoreStorage().children(folder).folders
        return sorted(each.rpartition("/")[2] for each in found)

    def put(self, path: str, data: bytes) -> str:
        """Write a document, over an existing one if there is one; return its version tag.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        tag = self._put(path, data, "overwrite")
        assert tag is not None, "a request without a condition can't fail by one"
        return tag

    def put_if_absent(self, path: str, data: bytes) -> str | None:
        """Write a document unless it exists; return its version tag, None if another is there.

        One with the same bytes counts as written by this call.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        return self._put(path, data, "create")

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        """Write over a document if it is still the version that was read.

        If the document has the same bytes already, its tag is returned, as a repeated request finds
        its own.

        Returns:
            The new version tag; None if the document was changed or deleted meanwhile.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        return self._put(path, data, {"version": tag} if self._has_numbers else {"e_tag": tag})

    def copy(self, source: str, path: str) -> None:
        """Copy an object; no data passes through here within one container or bucket.

        Nothing is done if the second path exists. Between two of them it passes through here, and
        the check is not part of the write.

        Raises:
            FileNotFoundError: There is no such object.
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        (base, key), (to, name) = split(source), split(path)
        try:
            if base == to:
                obstore.copy(connect(path), key, name, overwrite=False)
            elif not self.exists(path):
                found = obstore.get(connect(source), key)
                with obstore.open_writer(connect(path), name) as out:
                    for part in found.stream(_PART):
                        out.write(part)
        except AlreadyExistsError:
            return
        except REFUSALS as error:
            if is_missing(error):
                raise FileNotFoundError(source) from None
            raise store_error(path, "copied", error) from None

    def delete(self, path: str) -> None:
        """Delete a document; nothing happens if it does not exist.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        self._delete(path, [split(path)[1]])

    def delete_folder(self, folder: str) -> None:
        """Delete all objects below a prefix, and on Azure the folders that they were in.

        Nothing happens if there is nothing.

        Raises:
            UnavailableError: The store does not answer, or can't serve the request at the moment.
            InputError: The store refuses, for example without permission.
        """
        keys = [split(each.path)[1] for each in self.listing(folder)]
        for start in range(0, len(keys), _PAGE):
            self._delete(folder, keys[start : start + _PAGE])
        if not self._has_numbers:
            self._delete_empty(folder)

    def _delete_empty(self, folder: str) -> None:
        """Delete the folders of an account that has them, each after those in it."""
        for name in self.folders(folder):
            self._delete_empty(f"{folder}/{name}")
        if split(folder)[1] and is_folder(folder):
            self.delete(folder)

    def _delete(self, path: str, keys: list[str]) -> None:
        try:
            obstore.delete(connect(path), keys)
        except REFUSALS as error:
            if not is_missing(error):
                raise store_error(path, "deleted", error) from None
            # The first one that is missing ended the request for the others.
            if len(keys) > 1:
                for key in keys:
                    self._delete(path, [key])

    def _put(self, path: str, data: bytes, mode: PutMode) -> str | None:
        store, (_, key) = connect(path), split(path)
        for _ in range(_TRIES):
            try:
                # One request: a multipart upload would not be conditional.
                answer = obstore.put(store, key, data, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError) as error:
                # A repeated request of one's own meets the document that the first one wrote.
                if (there := self.read(path)) is not None:
                    return there.tag if there.data == data else None
                if mode != "create":
                    return None
                missing: Exception = error
            except REFUSALS as error:
                if is_missing(error) and isinstance(mode, dict):
                    return None
                raise store_error(path, "written", error) from None
            else:
                return self._tag(answer)
        # Others delete it each time, or the store locks it.
        raise store_error(path, "written", missing)

    @property
    def _has_numbers(self) -> bool:
        """Whether versions are numbers of generations; elsewhere they are ETags."""
        return self._scheme == "gs"

    def _tag(self, found: Mapping[str, Any]) -> str:
        return str(found["version" if self._has_numbers else "e_tag"])


def documents_of(scheme: str, _: HdfsSettings) -> ObstoreDocuments:
    """Return the document store of a cloud, which is configured by the environment alone.

    Called by the registry of stores; nothing is connected yet.
    """
    return ObstoreDocuments(scheme)
