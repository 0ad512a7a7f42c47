"""Opening and reading single history files, with errors that contain the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from sources.errors import InputError
from sources.formats.base import Format
from sources.formats.compression import UNKNOWN_BYTES, codec_of, open_decompressed
from sources.formats.file_regions import Region
from sources.formats.lines import OnBad, refuse
from sources.formats.parquet.footer import NOT_READ, UnreadableFileError
from sources.formats.row_check import RowCheck
from sources.storage.stores import Stores


def read_region(
    form: Format,
    region: Region,
    columns: pa.Schema,
    stores: Stores,
    bad: OnBad = refuse,
    check: RowCheck | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that begin in a byte region of a file; opens, decompresses and closes it.

    In batches with exactly ``columns``, in the order of the file.

    Args:
        form: Format of the file.
        region: The region; a compressed file is always read as a whole.
        columns: Exactly the columns to return.
        stores: Storages that the file may be in.
        bad: Called with each bad row, in formats with one row per line; others do not call it.
        check: Check of the parsed rows; those that do not pass are left out, in every format.

    Raises:
        InputError: The file can't be opened, is damaged, or does not fit the columns; or ``bad``
            refuses a row.
        UnavailableError: The storage does not answer.
    """
    with open_file(region.path, form, stores) as file:
        rows = form.read(file, readable_region(region), columns, bad, check)
        yield from rows if check is None or form.checks else check.pass_rows(region, rows)


def readable_region(region: Region) -> Region:
    """Return the region of a file that a format can read: all of it if it is compressed."""
    if codec_of(region.path) is None:
        return region
    return Region(region.path, 0, UNKNOWN_BYTES, UNKNOWN_BYTES)


def in_file(error: InputError, path: str) -> InputError:
    """Return an error whose message begins with a file's path, for the caller to raise.

    It is returned unchanged if it names a file already, or if it is of a subclass of InputError.
    """
    if "file" in error.fields or type(error) is not InputError:
        return error
    found = InputError(f"{path}: {error.message}", error.hint, **error.fields)
    found.fields["file"] = path
    return found


@contextmanager
def open_file(path: str, form: Format, stores: Stores) -> Iterator[pa.NativeFile]:
    """Open a file for random access, decompressed, for the body of ``with``.

    Errors of reading in the body are translated to InputErrors that name the file.

    Args:
        path: The file.
        form: Its format, for messages.
        stores: Storages that the file may be in.

    Yields:
        The open file; it is closed at the end of the block.

    Raises:
        InputError: The file can't be opened, or what the body reads is damaged or does not fit its
            columns.
        UnavailableError: The storage does not answer.
    """
    try:
        with open_decompressed(stores.of(path), path) as file:
            yield file
    except InputError as error:
        raise in_file(error, path) from None
    except (OSError, pa.ArrowException, UnicodeError) as error:
        reason = str(error).strip().removesuffix(".")
        message = f"{path} can't be read as {form.title}: {reason}."
        raise UnreadableFileError(message, NOT_READ, file=path) from None
