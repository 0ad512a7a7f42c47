"""Patch of fastavro in this process: it refuses Avro decimals that have no bytes.

It makes zeros of them. No integer has no bytes, and Spark refuses them
(https://avro.apache.org/docs/1.12.0/specification/#decimal).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import fastavro

_NAME = "bytes-decimal"
_READ = fastavro.read.LOGICAL_READERS[_NAME]


def _decimal(data: bytes, *schemas: Any) -> Decimal:
    if not data:
        message = "a decimal without bytes"
        raise ValueError(message)
    number: Decimal = _READ(data, *schemas)
    return number


def refuse_empty_decimals() -> None:
    """Patch fastavro in this process so that it raises ValueError for decimals without bytes.

    Unpatched it reads them as zero. Repeated calls do nothing. Decimals of type ``fixed`` are left
    alone.
    """
    fastavro.read.LOGICAL_READERS[_NAME] = _decimal
