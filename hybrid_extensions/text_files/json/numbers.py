"""Numbers in JSON lines that Arrow would misread: their rows are bad."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa

from sources.common.schema import leaves, with_leaves
from sources.formats.arrow_columns import leaf_values
from sources.formats.decimals import suspicious_decimals, why_bad

TEXT = r'"(?:[^"\\]|\\.)*+"'
"""Pattern of a text of JSON with its quotes; in what is left without texts, all are numbers."""
_TEXT = re.compile(TEXT.encode())
_INTEGER_ZERO = re.compile(rb"[:\[,]\s*-0\s*[,\]}]")
# Arrow accepts these words, Spark and Python do not.
_WORD = re.compile(rb"-NaN|Inf(?!inity)")


def check_words(block: bytes) -> None:
    """Refuse lines with words for numbers that only Arrow accepts, such as ``Inf``.

    ``NaN``, ``Infinity`` and ``-Infinity`` pass, as they are numbers for Spark, too.

    Args:
        block: Lines of JSON.

    Raises:
        ArrowInvalid: There is such a word outside of texts.
    """
    if b"Inf" not in block and b"-NaN" not in block:
        return
    for line in block.split(b"\n"):
        if _WORD.search(line) and (found := _WORD.search(_TEXT.sub(b"", line))):
            message = f"{found[0].decode()} is not a number in JSON"
            raise pa.ArrowInvalid(message)


def check_decimals(block: bytes, columns: pa.Schema) -> None:
    """Refuse lines with decimals that Arrow would misread; call it before Arrow parses them.

    Args:
        block: Lines of JSON.
        columns: Columns that are read; without a decimal among them nothing is checked.

    Raises:
        ArrowInvalid: There is one, or a line that may have one is not JSON.
    """
    decimals = [
        leaf for kind in columns.types for leaf in leaves(kind) if pa.types.is_decimal(leaf)
    ]
    if not decimals:
        return
    pattern = re.compile(suspicious_decimals(decimals).encode())
    if not pattern.search(block):
        return
    whole = pa.struct(columns)
    for line in block.split(b"\n"):
        if not pattern.search(line):
            continue
        try:
            row = json.loads(line, parse_float=str)
        except (ValueError, RecursionError) as error:
            message = f"it is not a JSON object: {error}"
            raise pa.ArrowInvalid(message) from None
        if (reason := _why_bad(row, whole)) is not None:
            raise pa.ArrowInvalid(reason)


def check_floats(rows: pa.Table, doubles: pa.Table) -> None:
    """Refuse rows in which a ``float`` became infinite although the number in the text is not.

    Args:
        rows: The parsed rows.
        doubles: The same rows, parsed with the types of :func:`with_doubles`.

    Raises:
        ArrowInvalid: A number is too large.
    """
    pairs = zip(_floats(rows), _floats(doubles), strict=True)
    if any((np.isinf(single) & np.isfinite(double)).any() for single, double in pairs):
        message = "a number is too large for float"
        raise pa.ArrowInvalid(message)


def has_infinite_float(rows: pa.Table) -> bool:
    """Return whether a ``float`` in parsed rows is infinite, also in nested columns.

    Then :func:`check_floats` has to tell whether the text says so.
    """
    return any(np.isinf(each).any() for each in _floats(rows) if each.dtype == np.float32)


def has_integer_zero(rows: pa.Table, block: bytes) -> bool:
    """Return whether a floating column has a zero that is written as the integer ``-0``.

    Spark reads it as 0.0, Arrow as -0.0.

    Args:
        rows: The parsed rows.
        block: Their text.
    """
    is_negative = any(((each == 0) & np.signbit(each)).any() for each in _floats(rows))
    return is_negative and _INTEGER_ZERO.search(block) is not None


def with_doubles(kind: pa.DataType) -> pa.DataType:
    """Return a type with ``double`` in place of each ``float``, also in nested types.

    Rows parsed once more with it show, by :func:`check_floats`, which numbers were too large.
    """
    return with_leaves(kind, lambda leaf: pa.float64() if pa.types.is_float32(leaf) else leaf)


def _floats(rows: pa.Table) -> list[Any]:
    columns = rows.combine_chunks().columns
    return [
        leaf.drop_null().to_numpy(zero_copy_only=False)
        for column in columns
        for leaf in leaf_values(column.chunk(0) if column.num_chunks else pa.nulls(0, column.type))
        if pa.types.is_floating(leaf.type)
    ]


def _why_bad(value: Any, kind: pa.DataType) -> str | None:
    """Return why a parsed JSON value has a decimal that Arrow may not parse; None if it has not."""
    parts: list[tuple[Any, pa.DataType]] = []
    if pa.types.is_struct(kind) and isinstance(value, dict):
        parts = [(value.get(field.name), field.type) for field in kind]
    elif pa.types.is_map(kind) and isinstance(value, dict):
        parts = [(each, kind.item_type) for each in value.values()]
    elif pa.types.is_list(kind) and isinstance(value, list):
        parts = [(each, kind.value_type) for each in value]
    elif pa.types.is_decimal(kind) and isinstance(value, str | int):
        return why_bad(str(value), kind)
    return next((reason for part in parts if (reason := _why_bad(*part)) is not None), None)
