"""Kinds of stores that extensions add, registered by the schemes of their paths."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreKind:
    """A kind of store that an extension adds: schemes of its paths, and how to make its clients.

    The driver passes it to tasks in pickled objects, as executors may not have the extension.

    Attributes:
        schemes: Schemes of its paths, without ``://``.
        forms: How such paths are written, for messages.
        files: Name ``module:function`` of a function from
            :class:`~sources.storage.settings.HdfsSettings` to a
            :class:`~sources.storage.base.Storage`.
        documents: Name ``module:function`` of a function from a scheme and these settings to a
            :class:`~sources.storage.documents.DocumentStore`.
    """

    schemes: tuple[str, ...]
    forms: tuple[str, ...]
    files: str
    documents: str
