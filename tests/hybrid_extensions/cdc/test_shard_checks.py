"""Declaring one table of several databases: what would mix rows of two shards is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybrid_extensions.cdc.shard_checks import ShardSection
from sources.config.pipeline import Pipeline
from tests.minimal import minimal_declaration
from tests.sources.config.test_unchanged import CHANGES, MERGE

Edit = Callable[[dict[str, Any]], None]
TOPICS = ["eu.public.orders", "us.public.orders"]


def declared(edit: Edit = lambda _: None) -> Pipeline:
    include = {**CHANGES["include"], "lsn": "lsn", "tx": "transaction", "_shard": "topic"}
    changes = {name: value for name, value in CHANGES.items() if name != "start"}
    document = minimal_declaration(
        *(
            {
                "name": topic[:2],
                "type": "files",
                "path": f"{topic[:2]}/*.parquet",
                "format": "parquet",
                "snapshot": {"dsn": "slotted://db", "slot": topic[:2], "topic": topic},
            }
            for topic in TOPICS
        ),
        {**changes, "topic": TOPICS, "include": include},
        sink={**MERGE, "key": ["_shard", "id"]},
    )
    edit(document)
    pipeline = Pipeline.model_validate(document)
    ShardSection().check(pipeline)
    return pipeline


def test_each_snapshot_is_continued_by_the_topic_of_its_shard() -> None:
    pipeline = declared()
    assert {topic: source.name for topic, source in pipeline.shards.items()} == {
        topic: topic[:2] for topic in TOPICS
    }
    for topic in TOPICS:
        changes = pipeline.changes_after(topic[:2])
        assert changes is not None
        assert changes.topics == [topic]
    # What the database is asked for knows nothing of shards.
    assert pipeline.sink.of_table(pipeline.topics[-1].topic_columns).key == ["id"]


def without_shard_in_key(document: dict[str, Any]) -> None:
    document["sink"]["key"] = ["id"]


def of_one_name(document: dict[str, Any]) -> None:
    document["sources"][1]["snapshot"]["topic"] = TOPICS[0]


def of_one_folder(document: dict[str, Any]) -> None:
    document["sources"][1]["path"] = "./eu/*.parquet"


def without_topic(document: dict[str, Any]) -> None:
    del document["sources"][1]["snapshot"]["topic"]


def of_another_topic(document: dict[str, Any]) -> None:
    document["sources"][1]["snapshot"]["topic"] = "asia.public.orders"


def without_snapshot(document: dict[str, Any]) -> None:
    del document["sources"][1]


def beside_files(document: dict[str, Any]) -> None:
    document["sources"].insert(0, {**document["sources"][0], "name": "old", "path": "old/*"})
    del document["sources"][0]["snapshot"]


def of_changes(**fields: Any) -> Edit:
    return lambda document: document["sources"][-1].update(fields)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (without_shard_in_key, r"`sink\.key` \(id\) lacks the shard\. Declare .*`_shard`"),
        (of_one_name, r"`eu` and `us` are two shards of one name: .*eu\.public\.orders"),
        (of_one_folder, r"`eu` and `us` have one folder for their snapshots, `eu`: .*`path`"),
        (without_topic, r"source `us` is one of several with a `snapshot`.*`snapshot\.topic`"),
        (of_another_topic, r"`snapshot\.topic: asia\.public\.orders`, which is no topic"),
        (without_snapshot, r"topic `us\.public\.orders` is that of a shard without a snapshot"),
        (beside_files, r"source `old` can't be read next to snapshots of shards"),
        (of_changes(on_truncate="follow"), r"`on_truncate: follow` .*would remove the rows of all"),
        (of_changes(on_schema_change="follow"), r"`on_schema_change` .*`added_columns`"),
        (of_changes(on_bad_record="drop"), r"`on_bad_record: drop` .*`on_bad_record: fail`"),
    ],
)
def test_what_would_mix_rows_of_two_shards_is_refused(edit: Edit, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        declared(edit)


def test_shards_without_snapshots_in_files_are_told_the_same() -> None:
    def alone(document: dict[str, Any]) -> None:
        del document["sources"][:-1]
        document["sources"][0].update(start="earliest")

    assert not declared(alone).shards

    def truncating(document: dict[str, Any]) -> None:
        alone(document)
        document["sources"][0].update(on_truncate="follow")

    with pytest.raises(ValueError, match="would remove the rows of all"):
        declared(truncating)
