"""Opening one file of history; whatever goes wrong names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from sources.errors import InputError
from sources.formats.base import Format
from sources.formats.compression import codec_of, open_unpacked
from sources.formats.lines import OnBad, refuse
from sources.formats.regions import Region
from sources.storage.stores import Stores

# No file is as long; of a packed one, only reading tells how long it is unpacked.
_ENDLESS = 1 << 62


def read_region(
    form: Format, region: Region, columns: pa.Schema, stores: Stores, bad: OnBad = refuse
) -> Iterator[pa.RecordBatch]:
    """The rows that begin in a region of a file.

    Args:
        form: The format of the file.
        region: Which part of it; all of it, if it is packed.
        columns: What to return.
        stores: Where the file is.
        bad: What is to be done about bad rows; see :class:`sources.formats.base.Format`.

    Raises:
        InputError: It can't be opened, is damaged, or does not fit its columns.
    """
    with reading(region.path, form, stores) as file:
        yield from form.read(file, unpacked(region), columns, bad)


def unpacked(region: Region) -> Region:
    """A region as a format is to read it: all of a packed file, whose bytes nobody has counted."""
    if codec_of(region.path) is None:
        return region
    return Region(region.path, 0, _ENDLESS, _ENDLESS)


@contextmanager
def reading(path: str, form: Format, stores: Stores) -> Iterator[pa.NativeFile]:
    """A file, unpacked, open at any place.

    Raises:
        InputError: It can't be opened, or what is read inside the block is damaged or does not
            fit its columns.
    """
    try:
        with open_unpacked(stores.of(path), path) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        message = f"{path} can't be read as {form.title}: {error}"
        raise InputError(message, "Repair or remove it, then plan again.") from None
