"""Documents in HDFS, where a rename to a free name is the only conditional operation.

That is enough: a document is written aside and renamed to its name. For compare-and-swap the
successor of a version is first written under a name that is made of that version's tag, which one
writer gets only.
"""

from __future__ import annotations

import hashlib
import posixpath
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from hybrid_extensions.hdfs.files import HdfsStorage, connect, split, store_error
from sources.errors import HybridError
from sources.storage.documents import Document, Listed
from sources.storage.settings import HdfsSettings

if TYPE_CHECKING:
    from hdfs_native import Client

_ABANDONED_MS = 60_000
"""Age from which the successor of a version counts as left behind by a writer that died."""


class HdfsDocuments:
    """Store of documents (small files with a version tag) of ``hdfs://`` paths.

    Implements :class:`sources.storage.documents.DocumentStore`. It connects at first use, so that
    an unknown namenode raises UnavailableError there; it can be pickled, and the copy connects
    itself.

    Args:
        settings: Default namenode and properties of the client.
    """

    deletes_at_once = True

    def __init__(self, settings: HdfsSettings) -> None:
        self._settings = settings
        self._clients: dict[str, Client] = {}

    def __reduce__(self) -> tuple[type[HdfsDocuments], tuple[HdfsSettings]]:
        # Clients are not passed on: each process has its own.
        return HdfsDocuments, (self._settings,)

    @property
    def delta_options(self) -> dict[str, str]:
        """Storage options with which delta-rs opens a Delta table in this cluster."""
        return self._settings.client_conf

    def read(self, path: str) -> Document | None:
        """Return a document; None if it does not exist.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        client, plain = self._at(path)
        try:
            status = client.get_file_info(plain)
            reader = client.read(plain)
            data = bytes(reader.read_range(0, len(reader)))
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError) as error:
            raise store_error(path, "read", error) from None
        # If the file was replaced between both requests, the tag never matches.
        digest = hashlib.sha256(data).hexdigest()[:16]
        return Document(data, f"{status.modification_time}-{digest}", status.modification_time)

    def exists(self, path: str) -> bool:
        """Return whether there is a document of this path, or anything else.

        True for a folder, too.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        client, plain = self._at(path)
        try:
            client.get_file_info(plain)
        except FileNotFoundError:
            return False
        except (OSError, RuntimeError) as error:
            raise store_error(path, "examined", error) from None
        return True

    def age_ms(self, path: str) -> int | None:
        """Return how long ago a file was written, in ms, both by the namenode's clock.

        Writes and deletes a file next to it, to learn the clock's time.

        Returns:
            The age; None if there is no such file.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        client, plain = self._at(path)
        # The namenode's clock shows only in the times of files that it writes.
        clock = f"{plain}.{uuid.uuid4().hex}.clock"
        try:
            written = client.get_file_info(plain).modification_time
            client.create(clock).close()
            now = client.get_file_info(clock).modification_time
            client.delete(clock, recursive=False)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError) as error:
            raise store_error(path, "examined", error) from None
        return max(int(now - written), 0)

    def listing(self, folder: str) -> list[Listed]:
        """Return all files of a folder and of the folders in it, sorted by path; maybe none.

        A missing folder has none.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        client, plain = self._at(folder)
        namenode, _ = split(folder)
        found, left = [], [plain]
        try:
            while left:
                # Each by itself: one that vanishes meanwhile would end the client's own recursion.
                with suppress(FileNotFoundError):
                    for each in client.list_status(left.pop()):
                        if each.isdir:
                            left.append(each.path)
                            continue
                        path = f"hdfs://{namenode}{each.path}"
                        found.append(Listed(path, each.length, each.modification_time))
        except (OSError, RuntimeError) as error:
            raise store_error(folder, "listed", error) from None
        return sorted(found)

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder, sorted; empty if it is missing.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        found = HdfsStorage(self._settings).children(folder).folders
        return sorted(posixpath.basename(each) for each in found)

    def put(self, path: str, data: bytes) -> str:
        """Write a document, over an existing one if there is one; return its version tag.

        The tag is empty if another writer has replaced the document already.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        return self._put(path, data, overwrite=True) or ""

    def put_if_absent(self, path: str, data: bytes) -> str | None:
        """Write a document unless it exists; return its version tag, None if another is there.

        If another with the same bytes is there, that counts as written.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        return self._put(path, data, overwrite=False)

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        """Write over a document if it is still the version that was read.

        Returns:
            The new version tag; None if the document was changed or deleted meanwhile.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        successor = posixpath.join(
            posixpath.dirname(path), f".{posixpath.basename(path)}.after-{tag}"
        )
        if (self.age_ms(successor) or 0) > _ABANDONED_MS:
            self.delete(successor)
        if self._put(successor, data, overwrite=False) is None:
            return None
        # Only who has this name may replace this version. It may have been replaced before.
        there = self.read(path)
        if there is None or there.tag != tag:
            self.delete(successor)
            return None
        return self._rename(successor, path, data, overwrite=True)

    def copy(self, source: str, path: str) -> None:
        """Copy a file, unless the copy exists; the bytes pass through this process.

        Args:
            source: Path of the file.
            path: Path of the copy, which appears at once as a whole.

        Raises:
            FileNotFoundError: There is no such file.
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        if self.exists(path):
            return
        folder, name = posixpath.split(path)
        client, plain = self._at(source)
        _, part = split(f"{folder}/.{name}.{uuid.uuid4().hex}")
        try:
            reader = client.read(plain)
            client.mkdirs(posixpath.dirname(part), create_parent=True)
            with client.create(part) as out:
                for chunk in reader.read_range_stream(0, len(reader)):
                    out.write(chunk)
            client.rename(part, split(path)[1], overwrite=True)
        except FileNotFoundError:
            raise FileNotFoundError(source) from None
        except (OSError, RuntimeError) as error:
            raise store_error(path, "copied", error) from None

    def delete(self, path: str) -> None:
        """Delete a document; nothing happens if it does not exist.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        self._delete(path, recursive=False)

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all that is in it; nothing happens if it does not exist.

        Raises:
            UnavailableError: The cluster does not answer.
            InputError: The cluster refuses, for example without permission.
        """
        self._delete(folder, recursive=True)

    def _delete(self, path: str, *, recursive: bool) -> None:
        client, plain = self._at(path)
        try:
            client.delete(plain, recursive)
        except FileNotFoundError:
            return
        except (OSError, RuntimeError) as error:
            raise store_error(path, "deleted", error) from None

    def _put(self, path: str, data: bytes, *, overwrite: bool) -> str | None:
        folder, name = posixpath.split(path)
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}"
        client, plain = self._at(temporary)
        try:
            client.mkdirs(posixpath.dirname(plain), create_parent=True)
            with client.create(plain) as out:
                out.write(data)
            return self._rename(temporary, path, data, overwrite=overwrite)
        except (OSError, RuntimeError) as error:
            raise store_error(path, "written", error) from None
        finally:
            with suppress(HybridError):
                self.delete(temporary)

    def _rename(self, source: str, path: str, data: bytes, *, overwrite: bool) -> str | None:
        client, plain = self._at(source)
        with suppress(FileExistsError, FileNotFoundError):
            client.rename(plain, split(path)[1], overwrite)
        there = self.read(path)
        return there.tag if there is not None and there.data == data else None

    def _at(self, path: str) -> tuple[Client, str]:
        namenode, plain = split(path)
        if namenode not in self._clients:
            self._clients[namenode] = connect(namenode, self._settings)
        return self._clients[namenode], plain


def documents_of(_scheme: str, settings: HdfsSettings) -> HdfsDocuments:
    """Return the document store of all HDFS clusters; nothing is connected yet.

    Called by the registry of stores.
    """
    return HdfsDocuments(settings)
