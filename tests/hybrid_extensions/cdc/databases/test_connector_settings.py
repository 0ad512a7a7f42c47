"""Settings of a connector by which changes are lost, or have other values."""

from __future__ import annotations

from typing import Any

import pytest

from hybrid_extensions.cdc.databases.connector_settings import (
    find_misset,
    require_settings,
    settings_problem,
)
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.changes.declared_table import DeclaredTable
from sources.errors import InputError, UnavailableError
from tests.services.connect_worker import worker

FITS = {
    "enable.time.adjuster": "false",
    "bigint.unsigned.handling.mode": "precise",
    "skipped.operations": "none",
}
COLUMNS = {
    "id": "decimal(20,0)",
    "day": "date",
    "price": "decimal(16,2)",
    "receipt": "binary",
}


def misset(
    config: dict[str, Any],
    columns: dict[str, str] | None = None,
    *,
    has_binlog: bool = True,
    only_written: bool = False,
    **table: Any,
) -> str:
    declared = DeclaredTable(table="shop.orders", **table)
    columns = COLUMNS if columns is None else columns
    found = find_misset(config, declared, columns, has_binlog=has_binlog, only_written=only_written)
    return "" if found is None else f"{found}; {found.remedy}"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, ""),
        ({"binary.handling.mode": "base64", "decimal.handling.mode": "string"}, ""),
        ({"skipped.operations": "t"}, "so `on_truncate: stop` can't stop at it"),
        ({"skipped.operations": None}, "so `on_truncate: stop` can't stop at it"),
        ({"skipped.operations": "none"}, ""),
        (
            {"column.mask.with.5.chars": "shop.customers.name", "column.truncate.to.9.chars": "("},
            "",
        ),
        ({"enable.time.adjuster": None}, "`enable.time.adjuster=true`: years 1 to 99"),
        ({"bigint.unsigned.handling.mode": "long"}, "set `bigint.unsigned.handling.mode=precise`"),
        ({"skipped.operations": "t, d"}, "`skipped.operations=t, d`: such changes are left out"),
        ({"time.precision.mode": "connect"}, "are cut to milliseconds"),
        ({"time.precision.mode": "nanoseconds"}, "set `time.precision.mode=adaptive_time_micro"),
        ({"decimal.handling.mode": "double"}, "of more than 15 digits are rounded"),
        ({"binary.handling.mode": "hex"}, "`binary_handling_mode: bytes`, or leaves it out"),
        ({"event.deserialization.failure.handling.mode": "warn"}, "are left out"),
        ({"inconsistent.schema.handling.mode": "skip"}, "are left out"),
        ({"gtid.source.excludes": "u"}, "remove `gtid.source.excludes` from the connector's"),
        ({"gtid.source.excludes": "u", "gtid.source.filter.dml.events": "false"}, ""),
        ({"column.mask.hash.v2": r"other, shop\.orders\..*"}, "column `id` has other values"),
    ],
)
def test_what_does_not_fit_is_named_with_what_to_set(config: dict[str, Any], said: str) -> None:
    found = misset({**FITS, **config})
    assert said in found
    assert bool(said) == bool(found)


def test_a_setting_counts_for_columns_that_it_is_about() -> None:
    whole = {"skipped.operations": "none"}
    assert misset(whole, {"id": "bigint", "name": "string"}) == ""
    assert "time.adjuster" in misset(whole, {"at": "timestamp"})
    assert misset(whole, has_binlog=False) == ""
    short = {**whole, "decimal.handling.mode": "double"}
    assert "double" in misset(short, has_binlog=False)
    assert misset(short, {"price": "decimal(15,2)"}) == ""
    assert misset({**FITS, "binary.handling.mode": "hex"}, binary_handling_mode="hex") == ""
    skipping = {**FITS, "skipped.operations": "t"}
    assert "can't follow it" in misset(skipping, on_truncate="follow")
    assert misset(FITS, on_truncate="follow") == ""


def test_a_live_run_goes_on_with_defaults_that_it_began_with() -> None:
    assert misset({}, only_written=True) == ""
    assert "years 1 to 99" in misset({"enable.time.adjuster": "true"}, only_written=True)
    assert misset({**FITS, "skipped.operations": "t"}, only_written=True) == ""
    # Such a run is stopped, by a look at its table.
    assert misset({**FITS, "skipped.operations": "d"}, only_written=True) == ""


def test_a_snapshot_is_refused_and_a_live_run_says_it() -> None:
    topic = KafkaSource.model_validate(
        {
            "name": "changes",
            "type": "kafka",
            "topic": "shop.shop.orders",
            "bootstrap_servers": "b:1",
            "format": "debezium",
            "table": "shop.orders",
            "schema": COLUMNS,
        }
    )
    answers: dict[str, Any] = {"/connectors/shop/config": {**FITS, "skipped.operations": "u"}}
    with worker(answers) as url:
        options = SnapshotOptions(dsn="logged://me@db/shop", connector=url)
        with pytest.raises(
            InputError, match=r"Set `skipped.operations=none` in .*take the snapshot"
        ):
            require_settings(options, topic)
        answers["/connectors/shop/config"] = {**FITS, "binary.handling.mode": "hex"}
        assert "Set `binary.handling.mode=bytes`" in settings_problem(options, topic)
        answers["/connectors/shop/config"] = FITS
        require_settings(options, topic)
        assert settings_problem(options, topic) == ""
        del answers["/connectors/shop/config"]
        with pytest.raises(InputError, match="answers 404"):
            require_settings(options, topic)
    with pytest.raises(UnavailableError, match="does not answer"):
        require_settings(options, topic)
    assert settings_problem(options, topic) == ""
    without = SnapshotOptions(dsn="logged://me@db/shop")
    require_settings(without, topic)
    assert settings_problem(without, topic) == settings_problem(options, None) == ""
