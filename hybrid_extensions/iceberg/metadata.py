"""Metadata file of an Iceberg table, read without columns of types that PyIceberg lacks."""

from __future__ import annotations

import gzip
import json
from typing import Any, NamedTuple

from pydantic import ValidationError as NotAField
from pyiceberg.exceptions import ValidationError as NotAType
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.types import NestedField

from hybrid_extensions.iceberg.stored_files import StoredFiles

_GZIP = b"\x1f\x8b"
ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
"""How names of metadata files end: plain, packed, and packed by old versions of Iceberg."""


class Metadata(NamedTuple):
    """Metadata of a table, as PyIceberg can parse it.

    Attributes:
        table: The metadata, without columns of unknown types.
        unknown: By id of the schema: the types of the columns that were left out as text, by name.
        without_list: Ids of the snapshots that name their manifests one by one, as the first
            version of the format allows. In ``table`` they have an empty path in place of a list of
            manifests.
    """

    table: TableMetadata
    unknown: dict[int, dict[str, str]]
    without_list: set[int]


def read_metadata(place: str, files: StoredFiles) -> Metadata:
    """Return the metadata of a table from its metadata file, whether it is packed (gzip) or not.

    Args:
        place: Location of the file.
        files: Opens it.

    Raises:
        ValueError: The file is no valid metadata.
        OSError: The file can't be read, or is damaged.
        KeyError, TypeError, pyiceberg.exceptions.ValidationError: As ValueError.
        EOFError, zlib.error: The file is packed and damaged.
    """
    with files.new_input(place).open() as file:
        content = bytes(file.read())
    found = json.loads(gzip.decompress(content) if content.startswith(_GZIP) else content)
    if not isinstance(found, dict):
        message = "its metadata is no JSON object"
        raise ValueError(message)
    schemas = [each for each in (found.get("schema"), *found.get("schemas", [])) if each]
    unknown: dict[int, dict[str, str]] = {}
    for schema in schemas:
        others = [field for field in schema["fields"] if not _is_known(field)]
        if others:
            types = {field["name"]: _first_unknown(field["type"]) for field in others}
            unknown[schema.get("schema-id", 0)] = types
            schema["fields"] = [field for field in schema["fields"] if field not in others]
    without_list = set()
    for snapshot in found.get("snapshots", []):
        if "manifest-list" not in snapshot:
            snapshot["manifest-list"] = ""
            without_list.add(snapshot["snapshot-id"])
    return Metadata(TableMetadataUtil.parse_obj(found), unknown, without_list)


def _is_known(field: dict[str, Any]) -> bool:
    try:
        NestedField.model_validate(field)
    except (NotAField, NotAType, ValueError, TypeError):
        return False
    return True


def _first_unknown(kind: Any) -> str:
    """Return the type inside a type that makes it unknown, as text."""
    if not isinstance(kind, dict):
        return str(kind)
    inner = [field["type"] for field in kind.get("fields", [])]
    inner += [kind[name] for name in ("element", "key", "value") if name in kind]
    parts = [each for each in inner if not _is_known(_field_of(each))]
    return _first_unknown(parts[0]) if parts else str(kind.get("type"))


def _field_of(kind: Any) -> dict[str, Any]:
    return {"id": 1, "name": "x", "required": False, "type": kind}
