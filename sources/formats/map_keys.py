"""Keys of maps in JSON, which have to be texts."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sources.common.schema import parse_type
from sources.errors import InputError


def require_text_keys(columns: Mapping[str, str]) -> None:
    """Refuse map columns whose keys are not texts: JSON has no others.

    Some of Spark's readers would return broken maps for them.

    Args:
        columns: Columns of JSON values and their Spark SQL types.

    Raises:
        InputError: Names the column.
    """
    for name, kind in columns.items():
        if _has_other_keys(parse_type(kind)):
            message = (
                f"Column `{name}: {kind}` has a map whose keys are not texts; the names of a JSON "
                "object's members are texts."
            )
            hint = (
                f"Declare `{name}` with a `map<string,…>`. If the keys are needed as numbers, let "
                "the transform convert them: transform_keys(<map>, (k, v) -> CAST(k AS int))."
            )
            raise InputError(message, hint, field=f"schema.{name}", column=name, value=kind)


def _has_other_keys(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
        return True
    return any(_has_other_keys(kind.field(at).type) for at in range(kind.num_fields))
