"""What can't have cuts is refused where it is declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.cuts.declare import overlap
from hybrid_extensions.cuts.members import CutTable, load_group
from sources.common.positions import TopicPartition
from sources.config.loader import declare
from sources.errors import InputError
from sources.planning.context import PipelineContext
from tests.orchestration.supervision.live_case import LiveCase

SLOTTED = {"dsn": "slotted://db/shop", "slot": "shop"}


def document(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "event_time": "_committed_at",
        "sources": [
            {
                "name": "snapshot",
                "type": "files",
                "path": f"snapshot/{name}/*.parquet",
                "format": "parquet",
                "snapshot": SLOTTED,
            },
            {
                "name": "changes",
                "type": "kafka",
                "topic": f"shop.public.{name}",
                "bootstrap_servers": "broker:9092",
                "format": "debezium",
                "table": f"public.{name}",
                "schema": {"id": "bigint"},
                "include": {
                    "_position": "position",
                    "_lsn": "lsn",
                    "_transaction": "transaction",
                    "_committed_at": "committed_at",
                    "_deleted": "deleted",
                },
            },
        ],
        "transform": "spark_jobs.inside.query.transform.unchanged:unchanged",
        "sink": {
            "path": f"out/{name}",
            "mode": "merge",
            "key": ["id"],
            "sequence": "_position",
            "deleted": "_deleted",
        },
        "state": "state",
        "cuts": {"path": "cuts", "every": "10 s"},
        **more,
    }


def declared(folder: Path, name: str, **more: Any) -> Path:
    return declare(folder / f"{name}.yaml", document(name, **more)).path


def test_pipelines_with_the_same_cuts_are_one_group(tmp_path: Path) -> None:
    group = load_group([declared(tmp_path, name) for name in ("orders", "lines")])
    assert list(group.pipelines) == ["public.orders", "public.lines"]
    assert group.cuts.every.total_seconds() == 10


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sink": {"path": "out", "mode": "append", "key": ["id"]}}, r"`sink\.mode: merge`; here"),
        ({"cuts": {"path": "out/orders/cuts"}}, r"`cuts\.path: out/orders/cuts` overlaps `sink\.p"),
        ({"cuts": {"path": "state"}}, r"`cuts\.path: state` overlaps `state: state`"),
        ({"cuts": {"path": "cuts", "every": "soon"}}, r"cuts\.every"),
    ],
)
def test_what_can_have_no_cuts_is_refused(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        declared(tmp_path, "orders", **change)


def test_a_table_without_a_place_in_the_log_is_refused(tmp_path: Path) -> None:
    made = document("orders")
    made["sink"]["sequence"] = "_lsn"
    with pytest.raises(InputError, match=r"`cuts` needs `sink\.sequence` to be the column that"):
        declare(tmp_path / "orders.yaml", made)
    made = document("orders")
    del made["sources"][0]
    made["sources"][0]["start"] = "earliest"
    with pytest.raises(InputError, match=r"`cuts` needs a source with `snapshot`"):
        declare(tmp_path / "orders.yaml", made)


def test_cuts_of_mariadb_need_the_connectors_url(tmp_path: Path) -> None:
    made = document("orders")
    snapshot = {"dsn": "logged://reader@db/shop"}
    made["sources"][0]["snapshot"] = snapshot
    for part in ("_lsn", "_transaction"):
        del made["sources"][1]["include"][part]
    with pytest.raises(
        InputError, match=r"`cuts` needs `snapshot\.connector`, the connector's URL"
    ):
        declare(tmp_path / "orders.yaml", made)
    snapshot["connector"] = "http://connect:8083/connectors/shop"
    orders = declare(tmp_path / "orders.yaml", made)
    made = {**made, "name": "lines", "sink": {**made["sink"], "path": "out/lines"}}
    made["sources"] = [dict(each) for each in made["sources"]]
    made["sources"][0]["snapshot"] = {**snapshot, "connector": "http://connect:8083/connectors/x"}
    made["sources"][1]["table"] = "public.lines"
    with pytest.raises(InputError, match=r"`snapshot\.connector` of pipeline `lines` is `.*/x`"):
        load_group([orders.path, declare(tmp_path / "lines.yaml", made).path])


def test_tables_of_different_databases_or_cuts_are_no_group(tmp_path: Path) -> None:
    orders = declared(tmp_path, "orders")
    with pytest.raises(InputError, match=r"`public\.orders` is captured by orders\.yaml and by"):
        load_group([orders, orders])
    other = declared(tmp_path, "lines", cuts={"path": "others"})
    with pytest.raises(InputError, match=r"`cuts\.path` of pipeline `lines` is `.*others`, and"):
        load_group([orders, other])
    without = declared(tmp_path, "plain", cuts=None)
    with pytest.raises(InputError, match=r"Pipeline `plain` declares no `cuts`.*Add `cuts"):
        load_group([without])
    made = document("lines")
    made["sources"][0]["snapshot"] = {**SLOTTED, "slot": "other"}
    with pytest.raises(InputError, match=r"`snapshot\.slot` of pipeline `lines` is `other`, and"):
        load_group([orders, declare(tmp_path / "lines.yaml", made).path])


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [("a", "a/", True), ("a/b", "a", True), ("ab", "a", False), ("s3://x/a", "s3://x/b", False)],
)
def test_folders_overlap_if_one_is_in_the_other(one: str, other: str, is_so: bool) -> None:
    assert overlap(one, other) is is_so


def test_a_table_whose_topic_does_not_exist_yet_holds_up_no_cut(tmp_path: Path) -> None:
    topic = {"type": "kafka", "name": "inbox", "topic": "events", "bootstrap_servers": "b:9092"}
    case = LiveCase(tmp_path, inbox={**topic, "missing_topic": "wait"})
    table = CutTable("public.events", PipelineContext(case.loaded, case.generation))
    first = TopicPartition("events", 0)
    assert table.unread({}) is None
    # As Spark writes them: the start offsets at its first look, then those of a micro-batch.
    checkpoint = case.generation.checkpoint
    checkpoint.replace_bytes("sources/1/0", b"v1\n{}")
    assert (table.unread({}), table.unread({first: 3})) == (0, 3)
    checkpoint.replace_bytes("offsets/0", b'v1\n{}\n-\n{"events":{"0":2}}')
    checkpoint.replace_bytes("commits/0", b"v1\n{}")
    assert table.unread({first: 3}) == 1
