"""Opening one file of history; whatever goes wrong names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from sources.errors import InputError
from sources.formats.format import Format
from sources.formats.packed import open_unpacked
from sources.stores import Stores


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
