"""Kinds of stores that extensions add, registered by the schemes of their paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class StoreKind:
    """A kind of store that an extension adds: schemes of its paths, and how to make its clients.

    The driver passes it to tasks in pickled objects, as executors may not have the extension.

    Attributes:
        schemes: Schemes of its paths, without ``://``.
        forms: How such paths are written, for messages.
        files: Name ``module:function`` of a function from the settings to a
            :class:`~sources.storage.base.Storage`.
        documents: Name ``module:function`` of a function from a scheme and these settings to a
            :class:`~sources.storage.documents.DocumentStore`.
        settings: Which settings of the pipeline's file these functions get: ``hdfs``
            (:class:`~sources.storage.settings.HdfsSettings`) or ``s3``
            (:class:`~sources.storage.settings.S3Settings`).
        warnings: Name of a function from the settings, a :class:`~sources.storage.folder.Folder`
            that is written to, and the field that names it, to sentences for a plan: rules of the
            store that would delete the pipeline's files. None if there are no such rules.
        expired_login: Name of a function from a path, what delta-rs raised, and the store's address
            to the error to raise if the login has expired, which is looked up again; else to None.
            None if a login does not expire.
        spark_conf: Name of a function from all paths of a pipeline to the Spark properties by which
            Hadoop logs in to those of this kind, without secrets. None if Spark needs none.
    """

    schemes: tuple[str, ...]
    forms: tuple[str, ...]
    files: str
    documents: str
    settings: Literal["hdfs", "s3"] = "hdfs"
    warnings: str | None = None
    expired_login: str | None = None
    spark_conf: str | None = None


def kind_of_store(path: str, kinds: Iterable[StoreKind]) -> StoreKind | None:
    """Return the kind of the store that a path is in, of some kinds; None if it is none of them.

    Args:
        path: A path, of this machine if it has no scheme.
        kinds: The kinds to choose from.
    """
    scheme, mark, _ = path.partition("://")
    return next((each for each in kinds if mark and scheme in each.schemes), None)
