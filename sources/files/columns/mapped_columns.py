"""Column mapping: columns of a table that have other names in its files.

By Delta's column mapping, whose mode ``id`` is how Iceberg finds columns, too
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#column-mapping,
https://iceberg.apache.org/spec/#column-projection).
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from sources.common.schema import field_id
from sources.common.state_document import Part

FIELD_ID, NAME_IN_FILE = "delta.columnMapping.id", "delta.columnMapping.physicalName"


class MappedColumns(Part):
    """Column mapping of a table: how its columns are found in its files.

    Attributes:
        mode: How columns are found in a file: by their physical ``name``, or by the field ``id``.
        fields: Each column's field in the schema of the table's Delta log (JSON), by the column's
            name.
    """

    mode: Literal["name", "id"]
    fields: dict[str, dict[str, Any]]

    def physical(self, name: str) -> str:
        """Return a column's name in files and statistics; ``name`` itself if the table lacks it."""
        field = self.fields.get(name)
        return name if field is None else str(field["metadata"][NAME_IN_FILE])

    def inside(self, file: pa.Schema) -> dict[str, str]:
        """Return the name in a file of each column that the file has, by its name in the table.

        Columns that the file lacks are left out.

        Args:
            file: Schema of a Parquet file.
        """
        if self.mode == "name":
            own = {name: self.physical(name) for name in self.fields}
            return {name: at for name, at in own.items() if at in file.names}
        ids = {field_id(field): field.name for field in file}
        numbers = {name: self.number(name) for name in self.fields}
        return {name: ids[number] for name, number in numbers.items() if number in ids}

    def number(self, name: str) -> int | None:
        """Return the field id by which files have a column; None in mode ``name``, without ids.

        In mode ``id`` the table has to have the column.
        """
        return int(self.fields[name]["metadata"][FIELD_ID]) if self.mode == "id" else None

    def as_field(self, field: dict[str, Any], number: int) -> dict[str, Any]:
        """Return a field of this project's plan log with the mapping that the table has for it.

        The plan log is the Delta log by which Spark reads the planned files. Its own columns, which
        the table does not have, get ids that no other column has.

        Args:
            field: The field without mapping, as JSON of a Delta schema.
            number: Its number among the fields of the plan log, from which an unused id is made for
                a field that the table does not have.
        """
        known = self.fields.get(field["name"])
        if known is None:
            number += max(int(each["metadata"][FIELD_ID]) for each in self.fields.values())
            return {**field, "metadata": {FIELD_ID: number + 1, NAME_IN_FILE: field["name"]}}
        is_nested = isinstance(field["type"], dict)
        return {
            **field,
            "type": known["type"] if is_nested else field["type"],
            "metadata": known["metadata"],
        }
