"""Kinds of stores that extensions add, registered by the schemes of their paths."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreKind:
    """A kind of store, with its schemes and clients.

    Tasks get it from the driver, so that they need not ask for extensions.

    Attributes:
        schemes: Schemes of its paths.
        forms: How such paths are written, for messages.
        files: Name of a function, ``module:function``, from the settings of HDFS to a
            :class:`~sources.storage.base.Storage`.
        documents: Name of a function from a scheme and these settings to a
            :class:`~sources.storage.documents.DocumentStore`.
    """

    schemes: tuple[str, ...]
    forms: tuple[str, ...]
    files: str
    documents: str
