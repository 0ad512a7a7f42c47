"""Executors and cores are those that the settings of Spark declare, or Spark's defaults."""

from __future__ import annotations

import os

import pytest

from hybrid_extensions.estimates.cores import cores_of, executors_of
from sources.config.spark_settings import SparkSettings

EIGHT = {"spark.executor.instances": "2", "spark.executor.cores": "4"}


def settings(master: str, conf: dict[str, str]) -> SparkSettings:
    image = {"spark.kubernetes.container.image": "i"} if master.startswith("k8s") else {}
    return SparkSettings(master=master, conf={**conf, **image})


@pytest.mark.parametrize(
    ("master", "conf", "executors"),
    [
        ("local[4]", {}, 1),
        ("yarn", {}, 2),
        ("yarn", {"spark.executor.instances": "7"}, 7),
        ("k8s://there", {"spark.dynamicAllocation.enabled": "true"}, None),
        ("spark://there:7077", {}, None),
    ],
)
def test_executors_are_those_declared_or_sparks_default(
    master: str, conf: dict[str, str], executors: int | None
) -> None:
    assert executors_of(settings(master, conf)) == executors


@pytest.mark.parametrize(
    ("master", "conf", "cores"),
    [
        ("local", {}, 1),
        ("local[4]", {}, 4),
        ("local[4,2]", {}, 4),
        ("local[*]", {}, os.cpu_count()),
        ("local[*, 2]", {}, os.cpu_count()),
        ("yarn", {}, 2),
        ("yarn", EIGHT, 8),
        ("k8s://there", {"spark.dynamicAllocation.enabled": "true"}, None),
        ("spark://there:7077", EIGHT, 8),
        ("spark://there:7077", {**EIGHT, "spark.cores.max": "6"}, 6),
        ("spark://there:7077", {}, None),
    ],
)
def test_cores_are_those_of_all_executors(
    master: str, conf: dict[str, str], cores: int | None
) -> None:
    assert cores_of(settings(master, conf)) == cores
