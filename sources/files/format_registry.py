"""Readers of file formats, by the names that declarations use."""

from __future__ import annotations

from sources.config.file_source import FileSource
from sources.formats.base import Format
from sources.formats.csv import Csv
from sources.formats.json_lines import JsonLines
from sources.formats.orc import Orc
from sources.formats.text import Text


def format_of(source: FileSource) -> Format:
    """Return the reader of a source's files, which are not Parquet: Spark reads that itself."""
    if source.format == "avro":
        # Its library is optional.
        from sources.formats.avro import Avro  # noqa: PLC0415

        return Avro()
    known: dict[str, Format] = {
        "csv": Csv(source.csv),
        "json": JsonLines(),
        "orc": Orc(),
        "text": Text(),
    }
    return known[source.format]
