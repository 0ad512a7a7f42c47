"""Format ``json``: each value is a JSON object."""

from __future__ import annotations

from typing import Literal

from sources.decoding.base import FieldReader
from sources.decoding.json.single_objects import JsonReader
from sources.decoding.record_columns import RecordColumns
from sources.decoding.value_formats.base import ValueFormat


class JsonValues(ValueFormat):
    """JSON objects, whose members are columns."""

    title = "JSON"
    parser = "json"

    format: Literal["json"] = "json"

    def reader(self, _columns: RecordColumns) -> FieldReader:
        """Build a decoder for samples only; in a run Spark and Arrow parse JSON in batches."""
        return JsonReader()
