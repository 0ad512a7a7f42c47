"""Compressed files: readable from their beginning only."""

from __future__ import annotations

import pyarrow as pa

from sources.storage.base import Storage

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_BLOCK_BYTES = 1 << 20


def codec_of(path: str) -> str | None:
    """How a file is compressed, by its name; None if it is not."""
    return next((codec for suffix, codec in _CODECS.items() if path.endswith(suffix)), None)


def open_unpacked(storage: Storage, path: str) -> pa.NativeFile:
    """A file for reading at any place, unpacked on the way if its name says that it is packed."""
    codec = codec_of(path)
    return storage.open(path) if codec is None else _Unpacked(storage, path, codec)


class _Unpacked:
    """As much of Arrow's file interface as formats use; going back means to begin again."""

    def __init__(self, storage: Storage, path: str, codec: str) -> None:
        self._storage, self._path, self._codec = storage, path, codec
        self._stream: pa.NativeFile | None = None

    def __enter__(self) -> _Unpacked:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def seek(self, place: int) -> None:
        self._stream = self.get_stream(place, 0)

    def read(self, size: int) -> bytes:
        if self._stream is None:
            self.seek(0)
        assert self._stream is not None
        found: bytes = self._stream.read(size)
        return found

    def get_stream(self, place: int, _: int) -> pa.NativeFile:
        """From a place on, to the end: packed files are read whole."""
        stream = pa.CompressedInputStream(self._storage.open(self._path), self._codec)
        while place and (skipped := stream.read(min(place, _BLOCK_BYTES))):
            place -= len(skipped)
        return stream
