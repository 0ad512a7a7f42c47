"""ORC files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import orc

from sources.common.schema import normalize_schema
from sources.formats.lines import OnBad, refuse
from sources.formats.regions import Region


class Orc:
    """See :class:`sources.formats.base.Format`."""

    title = "ORC"
    splits = False

    def columns(self, file: pa.NativeFile) -> pa.Schema:
        """From the file's footer."""
        return normalize_schema(orc.ORCFile(file).schema)

    def rows(self, file: pa.NativeFile) -> int:
        """From the file's footer."""
        found: int = orc.ORCFile(file).nrows
        return found

    def read(
        self, file: pa.NativeFile, _: Region, columns: pa.Schema, __: OnBad = refuse
    ) -> Iterator[pa.RecordBatch]:
        """Stripe by stripe."""
        opened = orc.ORCFile(file)
        for stripe in range(opened.nstripes):
            batch = opened.read_stripe(stripe, columns=columns.names)
            arrays = [batch[field.name].cast(field.type, safe=False) for field in columns]
            yield pa.record_batch(arrays, schema=columns)
