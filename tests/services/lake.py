"""Stores that hold all of a pipeline: state, checkpoint and target, each on the real thing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from tests.services.hdfs_server import hdfs_server
from tests.services.s3_server import LOGIN, client, s3_server

Kind = Literal["disk", "s3", "hdfs"]
Edit = Callable[[dict[str, Any]], None]
BUCKET = "lake"


@contextmanager
def lake(kind: Kind, folder: Path) -> Iterator[Edit]:
    """Start a store; yields what moves the declaration of a pipeline into it."""
    if kind == "disk":
        yield lambda _: None
    elif kind == "s3":
        with patch.dict(os.environ, LOGIN), s3_server(folder) as endpoint:
            client(endpoint).create_bucket(Bucket=BUCKET)
            yield _moved(f"s3://{BUCKET}", {"s3": {"endpoint": endpoint}})
    else:
        (folder / "hdfs").mkdir()
        with hdfs_server(folder / "hdfs") as namenode:
            yield _moved(f"hdfs://{namenode}", {})


def _moved(root: str, fields: dict[str, Any]) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        # Each pipeline that a test declares is one of its own.
        place = f"{root}/{uuid.uuid4().hex[:8]}"
        document |= fields
        document["state"] = f"{place}/state"
        document["sink"]["path"] = f"{place}/tables/out"

    return edit
