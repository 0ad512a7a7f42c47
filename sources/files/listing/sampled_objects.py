"""Sample of the JSON objects at the beginning of some JSON lines files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from sources.config.source.file_source import FileSource
from sources.files.format_registry import format_of
from sources.files.listing.sampler import SAMPLE_BYTES
from sources.formats.lines import BYTE_ORDER_MARK, blocks
from sources.formats.open_file import open_file
from sources.storage.stores import Stores

_FILES = 64
_ROWS = 100
_WORKERS = 16


def sampled_objects(
    source: FileSource, paths: Sequence[str], stores: Stores
) -> list[dict[str, Any]]:
    """Read the first JSON objects of up to 64 files spread over all; up to 100 of each.

    Lines that are no JSON object are left out. In the order of the files.

    Args:
        source: Declaration of the source, whose format is JSON.
        paths: Its files.
        stores: Storages of the pipeline.

    Raises:
        InputError: A file can't be read.
        UnavailableError: A storage does not answer.
    """
    step = max(len(paths) // _FILES, 1)
    some = paths[::step][:_FILES]
    with ThreadPoolExecutor(_WORKERS) as pool:
        found = pool.map(partial(_first_objects, source, stores), some)
        return [value for values in found for value in values]


def _first_objects(source: FileSource, stores: Stores, path: str) -> list[dict[str, Any]]:
    with open_file(path, format_of(source), stores) as file:
        return [*islice(_objects(file.get_stream(0, SAMPLE_BYTES)), _ROWS)]


def _objects(stream: Any) -> Iterator[dict[str, Any]]:
    for _, block in blocks(stream, 0):
        for line in block.removeprefix(BYTE_ORDER_MARK).split(b"\n"):
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value
