"""Registration of the text formats of file sources: CSV, JSON lines and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hybrid_extensions.text_files.csv.reader import Csv
from hybrid_extensions.text_files.json.lines import JsonLines
from hybrid_extensions.text_files.text import Text
from sources.config.source.file_source import FileSource
from sources.formats.base import Format

FORMATS: Mapping[str, Callable[[FileSource], Format]] = {
    "csv": lambda source: Csv(source.csv),
    "json": lambda _: JsonLines(),
    "text": lambda _: Text(),
}
