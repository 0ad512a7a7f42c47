"""Storages of a pipeline, by the scheme of a path; whether one answers, and what it may delete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from pkgutil import resolve_name

from sources.errors import InputError
from sources.extensions import items_added
from sources.storage.base import File, LocalStorage, Storage
from sources.storage.documents import DocumentStore, LocalDocuments
from sources.storage.folder import Folder
from sources.storage.settings import HdfsSettings, S3Settings
from sources.storage.store_kind import StoreKind, kind_of_store


class Stores:
    """All storages that a pipeline's paths may be in; can be pickled for Spark's tasks.

    Nothing is connected until a storage is used.

    Args:
        s3: Object store behind ``s3://``.
        hdfs: HDFS cluster behind ``hdfs://``.
        kinds: Kinds of further stores; those that extensions add if None.
    """

    def __init__(
        self,
        s3: S3Settings,
        hdfs: HdfsSettings | None = None,
        kinds: Sequence[StoreKind] | None = None,
    ) -> None:
        self._s3 = s3
        self._hdfs = hdfs or HdfsSettings()
        self._given = kinds
        self._made: dict[str, Storage] = {}

    def __reduce__(self) -> tuple[type[Stores], tuple[object, ...]]:
        return Stores, (self._s3, self._hdfs, self._kinds)

    def of(self, path: str) -> Storage:
        """Return the storage of an absolute path.

        Args:
            path: ``/folder/file``, ``s3://bucket/key``, ``hdfs://namenode/path``,
                ``abfss://container@account.dfs.core.windows.net/path`` or ``gs://bucket/key``.

        Raises:
            InputError: The path's scheme is not supported, or it is ``hdfs`` and the package's
                extra ``hdfs`` is not installed.
        """
        if (kind := self._kind_of(path)) is None:
            return self._local
        if kind.files not in self._made:
            self._made[kind.files] = resolve_name(kind.files)(self._settings[kind.settings])
        return self._made[kind.files]

    def folder(self, path: str) -> Folder:
        """Return a :class:`Folder` for an absolute path, in the store that the path names.

        It need not exist; nothing is read.

        Args:
            path: A path as in :meth:`of`.

        Raises:
            InputError: The path's scheme is not supported, or it is ``hdfs`` and the package's
                extra ``hdfs`` is not installed.
        """
        self.of(path)
        return Folder(path, self._documents_of(path))

    def _documents_of(self, path: str) -> DocumentStore:
        if (kind := self._kind_of(path)) is None:
            return LocalDocuments()
        documents: DocumentStore = resolve_name(kind.documents)(
            path.partition("://")[0], self._settings[kind.settings]
        )
        return documents

    def _kind_of(self, path: str) -> StoreKind | None:
        """Return the kind of a further store; None for a path on this machine.

        Raises:
            InputError: The path's scheme is not supported.
        """
        scheme, mark, _ = path.partition("://")
        if not mark:
            return None
        if (kind := kind_of_store(path, self._kinds)) is not None:
            return kind
        message = f"`{path}`: the scheme {scheme} is not supported."
        forms = ["a path on this machine", *(form for each in self._kinds for form in each.forms)]
        known = f"{', '.join(forms[:-1])} or {forms[-1]}" if len(forms) > 1 else forms[0]
        hint = (
            f"Declare {known}; copy the files to one of these if they are elsewhere, or install "
            "the extension for their store."
        )
        raise InputError(message, hint, file=path)

    def stat(self, paths: Sequence[str]) -> Iterator[File | None]:
        """Yield size, modification time and ETag of each file as it is now, in the given order.

        The files may be in different storages. None is yielded for a file that does not exist.

        Args:
            paths: Absolute paths.

        Raises:
            InputError: A storage refuses, or the scheme of a path is not supported.
            UnavailableError: A storage does not answer.
        """
        for storage, own in groupby(paths, self.of):
            yield from storage.stat(list(own))

    def bucket_warnings(self, folder: Folder, field: str) -> list[str]:
        """Return sentences that warn of rules of a folder's store; empty for stores without rules.

        Such as a bucket's lifecycle rules that would delete a pipeline's objects.

        Args:
            folder: Where documents or a table are to be written.
            field: Field of the declaration that names the folder, for the text.

        Raises:
            InputError: The path's scheme is not supported.
        """
        kind = self._kind_of(folder.url)
        if kind is None or kind.warnings is None:
            return []
        found: list[str] = resolve_name(kind.warnings)(self._settings[kind.settings], folder, field)
        return found

    def require_answer(self, path: str) -> None:
        """Refuse to continue if the storage of a path does not answer; a denial is an answer.

        Called after a library failed with an error whose type doesn't distinguish an outage from a
        bad file, so that an outage is reported as one.

        Raises:
            UnavailableError: The storage does not answer.
        """
        with suppress(InputError):
            self.of(path).children(path)

    @cached_property
    def _local(self) -> LocalStorage:
        return LocalStorage()

    @cached_property
    def _settings(self) -> Mapping[str, S3Settings | HdfsSettings]:
        return {"s3": self._s3, "hdfs": self._hdfs}

    @cached_property
    def _kinds(self) -> list[StoreKind]:
        return [*(items_added("stores") if self._given is None else self._given)]
