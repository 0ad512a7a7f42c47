"""Registration of `format: avro` of files; fastavro is imported once such a file is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sources.config.source.file_source import FileSource
from sources.formats.base import Format


def _reader(source: FileSource) -> Format:
    # Its library is optional.
    from hybrid_extensions.avro.file_reader import Avro  # noqa: PLC0415

    return Avro(None if source.names_inside is None else frozenset(source.names_inside))


FORMATS: Mapping[str, Callable[[FileSource], Format]] = {"avro": _reader}
