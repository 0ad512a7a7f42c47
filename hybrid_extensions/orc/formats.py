"""Registration of ORC among the formats of file sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hybrid_extensions.orc.reader import Orc
from sources.config.source.file_source import FileSource
from sources.formats.base import Format

FORMATS: Mapping[str, Callable[[FileSource], Format]] = {"orc": lambda _: Orc()}
