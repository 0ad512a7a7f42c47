"""Declaration of several inputs: what it means, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from sources.hybrid import Boundedness
from tests.extensions import skip_without


def files(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "files",
        "format": "parquet",
        "path": f"{name}/*.parquet",
        **fields,
    }


def topic(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": "kafka", "topic": name, **fields}


def declared() -> dict[str, Any]:
    return {
        "name": "paid",
        "event_time": "at",
        "inputs": {
            "orders": {"sources": [files("old_orders"), topic("new_orders")], "key": ["id"]},
            "payments": {
                "sources": [files("old_payments"), files("older_payments"), topic("new_payments")],
                "key": ["payment_id"],
            },
        },
        "transform": "transforms:paid",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
    }


def loaded(folder: Path, document: dict[str, Any]) -> LoadedPipeline:
    path = folder / "paid.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return load_pipeline(path)


def test_histories_of_all_inputs_come_before_the_topics_and_places_are_those_of_the_declaration(
    tmp_path: Path,
) -> None:
    pipeline = loaded(tmp_path, declared()).pipeline
    places = ["old_orders", "new_orders", "old_payments", "older_payments", "new_payments"]
    assert [source.name for source in pipeline.sources] == places
    assert [pipeline.place_of(name) for name in places] == [0, 1, 2, 3, 4]
    turns = ["old_orders", "old_payments", "older_payments", "new_orders", "new_payments"]
    chain = pipeline.hybrid_source()
    assert [source.name for source in chain.sources] == turns
    assert chain.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    # One run follows both topics.
    assert {pipeline.run_of(name) for name in ("new_orders", "new_payments")} == {"new_payments"}
    # Another one reads the first files of both inputs; then one the second ones of one input.
    assert {pipeline.run_of(name) for name in ("old_orders", "old_payments")} == {"old_payments"}
    assert pipeline.run_of("older_payments") == "older_payments"
    assert pipeline.source_before("new_orders").name == "old_orders"


def test_each_input_is_a_pipeline_with_its_own_sources_and_key(tmp_path: Path) -> None:
    own = loaded(tmp_path, declared()).by_input["payments"].pipeline
    assert [source.name for source in own.sources] == [
        "old_payments",
        "older_payments",
        "new_payments",
    ]
    assert own.key == ["payment_id"]
    assert own.seam_rule == "key"


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda d: d["inputs"].update(orders=d["inputs"].pop("orders")), id="order"),
        pytest.param(lambda d: d["inputs"]["orders"].update(key=["v"]), id="key"),
    ],
)
def test_the_order_of_inputs_and_their_keys_can_not_change_under_a_checkpoint(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None]
) -> None:
    before = loaded(tmp_path, declared()).contract()
    document = declared()
    edit(document)
    assert loaded(tmp_path, document).contract()["inputs"] != before["inputs"]


def test_a_pipeline_without_inputs_has_the_contract_that_kept_states_hold(tmp_path: Path) -> None:
    document = declared()
    document["sources"] = document.pop("inputs")["orders"]["sources"]
    assert "inputs" not in loaded(tmp_path, document).contract()


def _input(name: str = "orders", **fields: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        document["inputs"][name].update(fields)

    return edit


def _fields(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        document.update(fields)

    return edit


def _last(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        document["inputs"]["orders"]["sources"][-1].update(fields)

    return edit


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "sources beside inputs": (_fields(sources=[files("x")]), "`sources` and `inputs` are both"),
    "one input": (lambda d: d["inputs"].pop("orders"), "has one input only"),
    "a key beside inputs": (_fields(key=["id"]), "Declare `key` in each input"),
    "merge": (_fields(sink={"path": "o", "mode": "merge", "key": ["id"]}), "`sink.mode: merge`"),
    "rules": (_fields(rules={"positive": "v > 0"}), "`rules` can't be combined"),
    "approval": (_fields(approve=True), "`approve` can't be combined"),
    "an extension's section": (
        _fields(ranges={"by": "day", "start": "2024-01-01"}),
        "`ranges` can't be combined with `inputs`",
    ),
    "rows out of bounds": (
        _fields(event_time={"column": "at", "outside": "drop"}),
        "`event_time.outside: drop`",
    ),
    "the other policy of watermarks": (
        _fields(spark={"conf": {"spark.sql.streaming.multipleWatermarkPolicy": "max"}}),
        "the watermark is that of the input that is furthest behind",
    ),
    "the same source twice": (
        _input(sources=[files("old_payments"), topic("new_orders")]),
        "both have a source `old_payments`",
    ),
    "the same topic twice": (_last(topic="new_payments"), "topic `new_payments` is read by"),
    "one that ends": (_input(sources=[files("old_orders")]), "input `orders` ends"),
    "a topic with an end": (_last(until="latest"), "`until` of source `new_orders`"),
    "changes": (
        _last(format="debezium", schema={"id": "bigint"}, table="public.orders"),
        "`changes` of source `new_orders`",
    ),
    "more files for a gap": (_last(on_gap="extend"), "`on_gap: extend` of source `new_orders`"),
    "bad records that are left out": (
        _last(on_bad_record="drop"),
        "`on_bad_record: drop` of source `new_orders`",
    ),
    "a table": (
        _input(sources=[files("old_orders", format="delta"), topic("new_orders")]),
        "`format: delta` of source `old_orders`",
    ),
    "files with other columns": (
        _input(sources=[files("old_orders", schema_drift={}), topic("new_orders")]),
        "`schema_drift` of source `old_orders`",
    ),
    "a folder that grows": (
        _input(sources=[files("old_orders", discovery_interval="1 min")]),
        "`discovery_interval` of source `old_orders`",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_inputs_can_not_do_yet_is_refused_by_name(tmp_path: Path, case: str) -> None:
    skip_without("cdc" if case == "changes" else "")
    edit, told = REFUSED[case]
    document = declared()
    edit(document)
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, document)
    assert told in caught.value.message


def test_a_wrong_field_names_the_source_that_it_is_in(tmp_path: Path) -> None:
    document = declared()
    document["inputs"]["orders"]["sources"][1]["topik"] = "x"
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, document)
    assert "source `new_orders`, inputs.orders.sources.1.topik" in caught.value.message
    assert "did you mean `topic`?" in caught.value.message


@pytest.mark.parametrize("what", ["To adopt a table", "To recompute a range of event times"])
def test_what_needs_one_chain_says_so_with_the_way_out(tmp_path: Path, what: str) -> None:
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, declared()).pipeline.require_one_chain(what)
    assert caught.value.message.startswith(what)
    assert "`hybrid run P`, or `hybrid rerun P` if it has run" in caught.value.hint
