"""Compressed files, by their suffix: each can only be read from its beginning, as a whole."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable

import pyarrow as pa

from sources.storage.base import Storage

_DEFLATE = "deflate"
_CODECS = {
    ".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".deflate": _DEFLATE,
}  # fmt: skip
_BLOCK_BYTES = 1 << 20
UNKNOWN_BYTES = 1 << 62
"""Stands for the size of streamed content, which is unknown before it is read."""


def codec_of(path: str) -> str | None:
    """Return the codec of a file by its suffix, such as ``gzip`` for ``.gz``; else None.

    Known are ``.gz``, ``.bz2``, ``.zst``, ``.lz4`` and ``.deflate``; None for a file that is not
    compressed as a whole. Upper and lower case matter.
    """
    return next((codec for suffix, codec in _CODECS.items() if path.endswith(suffix)), None)


def open_decompressed(storage: Storage, path: str) -> pa.NativeFile:
    """Open a file for random access; one with the suffix of a codec is decompressed on the way.

    Offsets are then those of the decompressed content, and going back decompresses from the
    beginning again.

    Raises:
        OSError: The file can't be opened; a compressed one is opened only at its first read.
        UnavailableError: Its store does not answer.
    """
    codec = codec_of(path)
    if codec is None:
        return storage.open(path)
    if codec == _DEFLATE:
        return StreamedFile(lambda: pa.PythonFile(inflated(storage.open(path)), "r"))
    return StreamedFile(lambda: pa.CompressedInputStream(storage.open(path), codec))


def inflated(file: pa.NativeFile) -> io.BufferedReader:
    """Return the content of a file that Hadoop's ``DeflateCodec`` has compressed, with zlib.

    Reading it raises OSError if the file is damaged or cut short.

    Args:
        file: The compressed file, which is closed with what is returned.
    """
    return io.BufferedReader(_Inflated(file), _BLOCK_BYTES)


class _Inflated(io.RawIOBase):
    def __init__(self, file: pa.NativeFile) -> None:
        super().__init__()
        self._file = file
        self._zlib = zlib.decompressobj()
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = b""
        while not content:
            self._left = self._left or self._file.read(_BLOCK_BYTES)
            if not self._left:
                if self._zlib.eof:
                    return 0
                message = "the zlib stream is cut short"
                raise OSError(message)
            if self._zlib.eof:
                self._zlib = zlib.decompressobj()
            try:
                content = self._zlib.decompress(self._left, len(buffer))
            except zlib.error as error:
                message = f"it is no zlib stream: {error}"
                raise OSError(message) from None
            self._left = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


class StreamedFile:
    """Subset of Arrow's file interface over content that can only be read from its beginning.

    Offsets are those of the streamed content. Seeking streams it from the beginning again.

    Args:
        open_stream: Opens the content from its beginning.
    """

    def __init__(self, open_stream: Callable[[], pa.NativeFile]) -> None:
        self._open_stream = open_stream
        self._stream: pa.NativeFile | None = None

    def __enter__(self) -> StreamedFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def seek(self, offset: int) -> None:
        """Move to an offset: stream the content from its beginning, and drop the bytes before."""
        self._stream = self.get_stream(offset, 0)

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most ``size``; empty at the end."""
        stream = self._stream
        if stream is None:
            stream = self._stream = self.get_stream(0, 0)
        content: bytes = stream.read(size)
        return content

    def get_stream(self, offset: int, _: int) -> pa.NativeFile:
        """Return a stream from an offset to the end; the second argument, a length, is ignored.

        The caller closes it. If the content ends before the offset, the stream is at its end.
        """
        stream = self._open_stream()
        while offset and (skipped := stream.read(min(offset, _BLOCK_BYTES))):
            offset -= len(skipped)
        return stream
