"""Added source: one of a kind that an extension adds; once declared, it becomes a file source."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pydantic import Field

from sources.common.fields import AssetName, Declared, Instant, Name
from sources.config.source.file_options import FileBatch
from sources.config.source.file_source import FileSource
from sources.config.source.rate_limit import RateLimit

COMMON = ("name", "asset", "select", "complete_through", "batch", "rate")
"""Fields of every kind, which mean what they mean for a file source."""


class AddedSource(Declared, ABC):
    """Base of a kind of source that an extension adds.

    A kind is a subclass whose ``type`` is a ``Literal`` with its name, with its own fields.

    Attributes:
        type: Name of the kind.
        name: Name of the source and of its asset: lower case letters, digits and underscores.
        asset: Key of the Dagster asset that this data is, such as ``raw/orders``.
        select: Output columns as Spark SQL expressions of the source's columns; all columns
            unchanged by default.
        complete_through: Time up to which the source holds every row. By default what the kind
            itself knows, or else its highest event time minus ``allowed_lateness``.
        batch: Size limits of one micro-batch.
        rate: Rate limit per second.
    """

    type: str
    name: Name
    asset: AssetName | None = None
    select: dict[str, str] = Field(default_factory=dict)
    complete_through: Instant | None = None
    batch: FileBatch = FileBatch()
    rate: RateLimit = RateLimit()

    @abstractmethod
    def as_files(self) -> FileSource:
        """Return the file source that reads the data, which takes this source's place.

        Called while the declaration is validated.

        Raises:
            ValueError: The declared fields contradict each other.
        """
