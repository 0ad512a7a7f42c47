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
from tests.services.s3_server import LOGIN, client, s3_server, tell
from tests.services.versitygw import Versitygw

Kind = Literal["disk", "s3", "versitygw", "lossy-s3", "hdfs"]
Edit = Callable[[dict[str, Any]], None]
BUCKET = "lake"
# Of all requests: asked for less load, lost, answered without the answer arriving, or with the
# head of the answer alone, done twice.
LOSSES = {
    "refuse": 0.01,
    "lose request": 0.01,
    "lose answer": 0.01,
    "cut answer": 0.0005,
    "repeat": 0.01,
}


@contextmanager
def lake(kind: Kind, folder: Path) -> Iterator[Edit]:
    """Start a store; yields what moves the declaration of a pipeline into it."""
    if kind == "disk":
        yield lambda _: None
    elif kind == "versitygw":
        with patch.dict(os.environ, LOGIN), Versitygw() as store:
            yield _in_bucket(store.endpoint)
    elif kind in ("s3", "lossy-s3"):
        with patch.dict(os.environ, LOGIN), s3_server() as endpoint:
            edit = _in_bucket(endpoint)
            if kind == "lossy-s3":
                tell(endpoint, "faults", seed=1, shares=LOSSES)
            yield edit
    else:
        (folder / "hdfs").mkdir()
        with hdfs_server(folder / "hdfs") as namenode:
            yield _moved(f"hdfs://{namenode}", {})


def _in_bucket(endpoint: str) -> Edit:
    client(endpoint).create_bucket(Bucket=BUCKET)
    return _moved(f"s3://{BUCKET}", {"s3": {"endpoint": endpoint}})


def _moved(root: str, fields: dict[str, Any]) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        # Each pipeline that a test declares is one of its own.
        place = f"{root}/{uuid.uuid4().hex[:8]}"
        document |= fields
        document["state"] = f"{place}/state"
        document["sink"]["path"] = f"{place}/tables/out"

    return edit
