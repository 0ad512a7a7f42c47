"""The footer of one Parquet file: read by one request, and parsed safely or fast.

https://parquet.apache.org/docs/file-format/
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from sources.errors import InputError
from sources.formats.parquet.file import parquet_file
from sources.storage.stores import Stores

_TAIL_BYTES = 64 << 10
NOT_READ = (
    "If the file is damaged, write it again. If it does not belong to the source, move it out of "
    "the source's folder. A damaged file that nothing can write again may be moved out, too: its "
    "rows will be missing from the table. Then plan again (`hybrid plan P`)."
)
"""What to do about a file that can't be read and is not planned yet."""


class UnreadableFileError(InputError):
    """Error of a file that can't be opened or is damaged; its field ``file`` names it."""


def read_footer(path: str, stores: Stores) -> pq.FileMetaData:
    """Read the footer of a Parquet file: its schema, row groups and statistics.

    Raises:
        InputError: The file can't be read, or is no Parquet.
        UnavailableError: The storage does not answer.
    """
    try:
        return footer_of(path, stores, parse_safely)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from None


def footer_of(
    path: str, stores: Stores, parse: Callable[[pa.Buffer], pq.FileMetaData]
) -> pq.FileMetaData:
    """Read the footer of a Parquet file with a given parser, by one request for the file's end.

    A footer of more than 64 KiB needs another request, and Arrow's parser.

    Args:
        path: The file.
        stores: Storages that the file may be in.
        parse: :func:`parse_safely`, or a faster parser that a damaged footer may crash.

    Raises:
        OSError, pyarrow.ArrowException: The file can't be read, or is damaged.
        UnavailableError: The storage does not answer.
    """
    storage = stores.of(path)
    tail = storage.tail(path, _TAIL_BYTES)
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] == b"PAR1" and length <= len(tail) - 8:
        return parse(pa.py_buffer(tail[-8 - length : -8]))
    with storage.open(path) as stream, parquet_file(stream) as file:
        return file.metadata


def parse_safely(footer: pa.Buffer) -> pq.FileMetaData:
    """Parse the bytes of a Parquet footer by Arrow's public reader.

    Raises:
        pyarrow.ArrowException: The footer is damaged.
    """
    end = footer.size.to_bytes(4, "little") + b"PAR1"
    return pq.read_metadata(pa.BufferReader(b"PAR1" + footer.to_pybytes() + end))


# What unpickling a footer calls, in Arrow 26: a third of the time, but a damaged footer crashes it.
try:
    from pyarrow._parquet import _reconstruct_filemetadata
except ImportError:
    parse_fast = parse_safely
else:
    parse_fast = _reconstruct_filemetadata


def unreadable(path: str, error: Exception, hint: str = NOT_READ) -> UnreadableFileError:
    """Return the error, for the caller to raise, that a file can't be read as Parquet.

    Args:
        path: The file.
        error: What Arrow or the storage raised.
        hint: What to do; by default for a file that is not planned yet.
    """
    reason = str(error).strip().removesuffix(".")
    message = f"{path} can't be read as Parquet: {reason}."
    return UnreadableFileError(message, hint, file=path)
