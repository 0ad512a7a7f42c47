"""Files of lines that are packed, or in another encoding: named as what they are."""

from __future__ import annotations

import bz2
import gzip
import lzma
from io import BytesIO
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.text_files.csv.reader import Csv
from hybrid_extensions.text_files.json.lines import JsonLines
from hybrid_extensions.text_files.text import Text
from sources.common.schema import parse_schema
from sources.errors import InputError
from sources.formats.base import TEXT_COLUMNS, Format
from sources.formats.csv_options import CsvOptions
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow

LINES = {"json": b'{"id": 1}\n{"id": 2}\n', "csv": b"id\n1\n2\n"}
FORMATS: dict[str, Format] = {"json": JsonLines(), "csv": Csv(CsvOptions())}


def refusal(folder: Path, form: str, name: str, content: bytes) -> InputError:
    """Why a file is refused, also where bad rows are left out."""

    def leave_out(_: BadRow) -> None:
        """Its rows would be lost."""

    path = folder / name
    path.write_bytes(content)
    region = Region(str(path), 0, len(content), len(content))
    with pytest.raises(InputError) as refused, pa.OSFile(str(path)) as file:
        list(FORMATS[form].read(file, region, parse_schema({"id": "int"}), leave_out))
    return refused.value


@pytest.mark.parametrize("form", FORMATS)
def test_a_packed_file_whose_name_does_not_say_so_is_named_with_its_suffix(
    tmp_path: Path, form: str
) -> None:
    lines = LINES[form]
    packed = {
        ".gz": gzip.compress(lines),
        ".bz2": bz2.compress(lines),
        ".zst": pa.Codec("zstd").compress(lines, asbytes=True),
        ".lz4": pa.Codec("lz4").compress(lines, asbytes=True),
    }
    for suffix, content in packed.items():
        told = refusal(tmp_path, form, f"a.{form}", content)
        assert "which its name does not say" in told.message
        assert f"ends in `{suffix}`" in told.hint


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_can_not_be_unpacked_is_named_with_its_codec(tmp_path: Path, form: str) -> None:
    lines = LINES[form]
    for name, content, codec in (
        ("a.xz", lzma.compress(lines), "xz"),
        ("a.zip", b"PK\x03\x04" + lines, "ZIP"),
        # Hadoop's codecs, as Spark writes them.
        ("a.snappy", pa.Codec("snappy").compress(lines, asbytes=True), "Snappy"),
    ):
        told = refusal(tmp_path, form, name, content)
        assert f"is compressed by {codec}, which is not read" in told.message


def test_text_of_a_codec_that_is_not_read_is_no_text(tmp_path: Path) -> None:
    # So short that all of its bytes are characters.
    (path := tmp_path / "a.snappy").write_bytes(pa.Codec("snappy").compress(b"a,b\n", asbytes=True))
    path.read_bytes().decode()
    region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
    with pa.OSFile(str(path)) as file, pytest.raises(InputError, match="compressed by Snappy"):
        list(Text().read(file, region, TEXT_COLUMNS))


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_of_another_format_is_named(tmp_path: Path, form: str) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "p")
    fastavro.writer(content := BytesIO(), {"type": "record", "name": "r", "fields": []}, [{}])
    for name, other in (("parquet", (tmp_path / "p").read_bytes()), ("avro", content.getvalue())):
        assert f"`format: {name}`" in refusal(tmp_path, form, "a", other).hint


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("form", FORMATS)
def test_text_of_two_bytes_a_character_is_named(tmp_path: Path, form: str, encoding: str) -> None:
    content = LINES[form].decode().encode(encoding)
    assert "is not UTF-8 text: it begins with" in refusal(tmp_path, form, "a", content).message
