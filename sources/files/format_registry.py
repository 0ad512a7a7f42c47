"""Readers of file formats, by the names that declarations use."""

from __future__ import annotations

from sources.config.file_source import FileSource
from sources.formats.base import Format
from sources.formats.csv import Csv
from sources.formats.json_lines import JsonLines
from sources.formats.orc import Orc
from sources.formats.text import Text


def format_of(source: FileSource) -> Format:
    """Return the reader of the format that a source declares.

    Args:
        source: Declaration of the source; its format is neither Parquet nor Delta, which Spark
            reads itself.

    Raises:
        InputError: The format is Avro, and the package's extra ``avro`` is not installed.
        KeyError: The format has no reader here.
    """
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
