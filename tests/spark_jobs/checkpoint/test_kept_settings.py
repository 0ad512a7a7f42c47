"""Declared settings that a checkpoint has other values of are told with both values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sources.config.pipeline import Pipeline
from sources.storage.folder import Folder
from spark_jobs.checkpoint.kept_settings import overruled_settings
from tests.minimal import minimal_model

PARTITIONS, WATERMARK = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.multipleWatermarkPolicy",
)
KEPT = {PARTITIONS: "4", WATERMARK: "min"}


def declared(conf: dict[str, str]) -> Pipeline:
    files = {"type": "files", "name": "history", "format": "parquet", "path": "in/*.parquet"}
    return minimal_model(files, spark={"conf": conf})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "checkpoint")
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": KEPT})
    folder.replace_bytes("offsets/3", f"v1\n{metadata}\n-".encode())
    return folder


def test_another_number_of_state_partitions_is_told_with_both_values_and_the_way(
    checkpoint: Folder,
) -> None:
    told = overruled_settings(declared({PARTITIONS: "8", WATERMARK: "min"}), checkpoint)
    assert told is not None
    assert (
        "Spark goes on with those of the checkpoint (spark.sql.shuffle.partitions: 4, not 8)"
        in told
    )
    assert "`hybrid generation new P`" in told


@pytest.mark.parametrize(
    "conf",
    [
        pytest.param({}, id="nothing"),
        pytest.param(KEPT, id="the same"),
        pytest.param({"spark.sql.ansi.enabled": "false"}, id="what no checkpoint keeps"),
        pytest.param({"spark.executor.memory": "2g"}, id="no setting of queries"),
    ],
)
def test_whatever_the_checkpoint_follows_is_not_told(
    checkpoint: Folder, conf: dict[str, str]
) -> None:
    assert overruled_settings(declared(conf), checkpoint) is None


def test_before_the_first_micro_batch_anything_may_be_declared(tmp_path: Path) -> None:
    assert overruled_settings(declared({PARTITIONS: "8"}), Folder(tmp_path / "no")) is None
