"""Checks by the first bytes of a JSON or CSV file that it is text, uncompressed and in UTF-8."""

from __future__ import annotations

import codecs

import pyarrow as pa

from sources.errors import InputError

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# By the codecs' own specifications: the first bytes, the name, and the suffix that is read.
_PACKED = (
    (b"\x1f\x8b", "gzip", ".gz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard", ".zst"),
    (b"BZh91AY&SY", "bzip2", ".bz2"),
    (b"\x04\x22\x4d\x18", "LZ4", ".lz4"),
    (b"\xfd7zXZ\0", "xz", None),
    (b"PK\x03\x04", "ZIP", None),
)
# Hadoop's codecs, which have no bytes of their own in front.
_OTHERS = {".snappy": "Snappy", ".lzo": "LZO", ".lzo_deflate": "LZO"}
_FORMATS = {b"PAR1\x15": "parquet", b"Obj\x01": "avro"}
_MOST = 16
# Each character of UTF-16 that is in ASCII, too, has a zero byte: two of them are enough to see it.
_TWO_OF_UTF16 = 4


def require_text(file: pa.NativeFile, path: str, *, is_utf8: bool, encoding: str) -> None:
    """Refuse a file that begins like compressed data, another format, or UTF-16 text.

    Moves the file's position.

    Args:
        file: The file, decompressed by its name.
        path: Its path.
        is_utf8: Whether it has to be text in UTF-8.
        encoding: What to do with text in another encoding: the beginning of the hint.

    Raises:
        InputError: The file is compressed, of another format, or not UTF-8 text although required.
    """
    file.seek(0)
    first = file.read(_MOST)
    for start, codec, suffix in _PACKED:
        if first.startswith(start):
            raise _packed(path, codec, suffix)
    for start, form in _FORMATS.items():
        if first.startswith(start):
            message = f"{path} is a file of the format {form}, whatever its name says."
            hint = f"Declare `format: {form}`, or move the file out of the source's folder."
            raise InputError(message, hint, file=path)
    require_codec(path)
    if is_utf8 and (first.startswith(_UTF16) or b"\0" in first[:_TWO_OF_UTF16]):
        message = (
            f"{path} is not UTF-8 text: it begins with the bytes {first[:_TWO_OF_UTF16].hex()}."
        )
        hint = f"{encoding}, or write the file again."
        raise InputError(message, hint, file=path)


def require_codec(path: str) -> None:
    """Refuse a file of lines whose suffix is that of a codec which is not read, such as LZO.

    Raises:
        InputError: Names the codec.
    """
    for suffix, codec in _OTHERS.items():
        if path.endswith(suffix):
            raise _packed(path, codec, None)


def _packed(path: str, codec: str, suffix: str | None) -> InputError:
    if suffix is None:
        message = f"{path} is compressed by {codec}, which is not read."
        hint = "Unpack the file, or compress its content by gzip under a name that ends in `.gz`."
    else:
        message = f"{path} is compressed by {codec}, which its name does not say."
        hint = f"Rename the file, so that its name ends in `{suffix}`, and correct `path`."
    return InputError(message, hint, file=path)
