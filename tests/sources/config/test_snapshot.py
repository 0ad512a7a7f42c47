from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.database_snapshot import PostgresSnapshot
from sources.common.positions import EndPosition, HeldOffsets, StartPosition
from sources.config.pipeline import Pipeline
from sources.config.source.snapshot import (
    MANIFEST,
    Chunk,
    SnapshotManifest,
    SnapshotOptions,
    chunk_name,
    require_snapshot,
)
from sources.errors import StateError
from sources.kafka.seam import seam_rule, seam_warnings
from sources.storage.folder import Folder
from tests.minimal import minimal_declaration
from tests.properties import examples

TURN = 1 << 32
COLUMNS = {"lsn": "lsn", "transaction": "tx"}


def holds(snapshot: PostgresSnapshot, lsn: int | None, transaction: int | None) -> bool:
    query = f"SELECT {snapshot.holds(COLUMNS)} FROM (SELECT ?::BIGINT AS lsn, ?::BIGINT AS tx)"
    with duckdb.connect() as connection:
        row = connection.execute(query, [lsn, transaction]).fetchone()
    assert row is not None
    return bool(row[0])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[PostgresSnapshot, int, bool, int]:
    """A snapshot, a transaction by its full id, whether the snapshot sees it, and its row's LSN."""
    xmin = draw(st.integers(3, 5 * TURN) | st.integers(TURN - 40, TURN + 40))
    running = draw(st.sets(st.integers(xmin, xmin + 40), min_size=1, max_size=6))
    xmin, xmax = min(running), draw(st.integers(max(running) + 1, max(running) + 40))
    lsn = draw(st.integers(1000, 2**40))
    snapshot = PostgresSnapshot(
        lsn=lsn, xmin=xmin, xmax=xmax, in_progress=sorted(running), taken_ms=0
    )
    near = st.integers(xmin - 60, xmax + 60)
    far = st.integers(xmax - (TURN >> 1) + 1, xmax + (TURN >> 1) - 1)
    transaction = max(draw(near | far), 3)
    sees = transaction < xmax and transaction not in running
    # What the snapshot sees was written before it; the others wrote on either side.
    written = draw(st.integers(0, lsn) if sees else st.integers(0, 2 * lsn))
    return snapshot, transaction, sees, written


@examples(100)
@given(worlds())
def test_a_snapshot_holds_what_it_sees_whatever_the_turn_of_transaction_ids(
    world: tuple[PostgresSnapshot, int, bool, int],
) -> None:
    snapshot, transaction, sees, written = world
    # The log tells 32 bits.
    assert holds(snapshot, written, transaction % TURN) == sees


def test_a_change_of_a_transaction_in_flight_is_not_held_though_its_row_was_written_before() -> (
    None
):
    snapshot = PostgresSnapshot(lsn=500, xmin=70, xmax=75, in_progress=[70, 72], taken_ms=0)
    assert [holds(snapshot, 400, number) for number in range(69, 76)] == [
        True,
        False,
        True,
        False,
        True,
        True,
        False,
    ]


def test_a_change_long_after_the_snapshot_is_not_held_when_transaction_ids_have_wrapped() -> None:
    snapshot = PostgresSnapshot(lsn=500, xmin=70, xmax=75, in_progress=[70], taken_ms=0)
    assert not holds(snapshot, 501, 71)


def test_a_row_of_the_connectors_own_snapshot_is_held_if_it_is_older() -> None:
    snapshot = PostgresSnapshot(lsn=500, xmin=70, xmax=70, in_progress=[], taken_ms=0)
    assert [holds(snapshot, lsn, None) for lsn in (499, 501)] == [True, False]
    assert not holds(snapshot, None, 3)


def manifest(chunks: int, done: int) -> SnapshotManifest:
    return SnapshotManifest(
        table="public.orders",
        key=("id", "bigint"),
        bounds=[str(number) for number in range(1, chunks)],
        snapshots=[PostgresSnapshot(lsn=1, xmin=3, xmax=3, in_progress=[], taken_ms=0)],
        offsets={},
        done={number: Chunk(rows=1, snapshot=0) for number in range(done)},
    )


class TestWhatAPlanNeeds:
    def folder(self, where: Path, kept: SnapshotManifest | None) -> Folder:
        (where / "orders").mkdir()
        if kept is not None:
            (where / "orders" / MANIFEST).write_text(kept.model_dump_json())
            for number in kept.done:
                (where / "orders" / chunk_name(number)).touch()
        return Folder(where / "orders")

    def test_a_snapshot_that_is_there(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, manifest(3, 3))
        assert require_snapshot(folder, "shop") == manifest(3, 3)

    @pytest.mark.parametrize(
        ("kept", "said"),
        [
            (None, r"There is no snapshot of .*orders: .* Run `hybrid snapshot P`"),
            (manifest(3, 2), r"2 of 3 chunks are written\. Run `hybrid snapshot P`.*kept"),
        ],
    )
    def test_one_that_is_not(
        self, tmp_path: Path, kept: SnapshotManifest | None, said: str
    ) -> None:
        with pytest.raises(StateError, match=said):
            require_snapshot(self.folder(tmp_path, kept), "shop")

    def test_no_other_file(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, manifest(2, 2))
        folder.path("more.parquet").touch()
        with pytest.raises(StateError, match=r"more\.parquet was added to .* Move the file"):
            require_snapshot(folder, "shop")

    def test_no_file_less(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, manifest(2, 2))
        folder.path("part-00001.parquet").unlink()
        with pytest.raises(StateError, match=r"part-00001\.parquet .* is missing\. Restore"):
            require_snapshot(folder, "shop")


@pytest.mark.parametrize("dsn", ["slotted://db?password=geheim", "slotted://me:geheim@db/shop"])
def test_a_password_in_the_file_is_refused_and_not_shown(dsn: str) -> None:
    with pytest.raises(ValueError, match="SLOTTED_PASSWORD") as caught:
        SnapshotOptions(dsn=dsn, slot="shop")
    assert "geheim" not in str(caught.value)


PIPELINE: dict[str, Any] = minimal_declaration(
    {
        "name": "snapshot",
        "type": "files",
        "path": "orders/*.parquet",
        "format": "parquet",
        "snapshot": {"dsn": "slotted://db", "slot": "shop"},
    },
    {
        "name": "changes",
        "type": "kafka",
        "topic": "shop.public.orders",
        "format": "debezium",
        "table": "public.orders",
        "schema": {"id": "bigint"},
        "include": {
            "_position": "position",
            "_lsn": "lsn",
            "_tx": "transaction",
            "_at": "committed_at",
            "_gone": "deleted",
        },
    },
    event_time="_at",
    sink={
        "path": "out",
        "mode": "merge",
        "key": ["id"],
        "sequence": "_position",
        "deleted": "_gone",
    },
)


def changed(*path: Any, to: Any) -> dict[str, Any]:
    document = deepcopy(PIPELINE)
    at: Any = document
    for step in path[:-1]:
        at = at[step]
    if to is None:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return document


def test_a_pipeline_of_snapshot_and_changes() -> None:
    pipeline = Pipeline.model_validate(PIPELINE)
    assert pipeline.sink.order == ["_position"]
    assert pipeline.sink.removes_rows


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dsn": "slotted://db"}, "of Slotted needs `slot`"),
        ({"dsn": "logged://me@db/shop", "slot": "shop"}, "`slot` has no meaning with Logged"),
        ({"dsn": "slotted://db", "slot": "s", "restart_connector": True}, "needs `connector`"),
        ({"dsn": "logged://me:geheim@db/shop"}, "LOGGED_PASSWORD"),
    ],
)
def test_fields_that_do_not_fit_the_database_are_refused(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        SnapshotOptions(**options)
    assert "geheim" not in str(caught.value)


def test_a_kind_without_slots_needs_no_log_position_and_no_transaction_of_a_change() -> None:
    document = changed("sources", 0, "snapshot", to={"dsn": "logged://me@db:3306/shop"})
    included = document["sources"][1]["include"]
    del included["_lsn"], included["_tx"]
    assert Pipeline.model_validate(document).sink.order == ["_position"]
    del included["_position"]
    with pytest.raises(ValueError, match="no column for the `position`"):
        Pipeline.model_validate({**document, "sink": {**document["sink"], "sequence": "_at"}})


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (("sink", "mode"), "append", "Declare `mode: merge` and `sequence: _position` under"),
        (("sink", "sequence"), "_lsn", "Declare `mode: merge` and `sequence: _position` under"),
        (("sources", 1, "until"), "latest", "source `changes` has an end"),
    ],
)
def test_changes_are_followed_while_reading_only_where_their_position_orders_them(
    path: tuple[Any, ...], to: str, said: str
) -> None:
    document = changed("sources", 0, "snapshot", "follow", to="while_reading")
    assert Pipeline.model_validate(document).file_sources[0].follows_while_reading
    at: Any = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to
    if to == "append":
        del document["sink"]["sequence"], document["sink"]["deleted"]
    with pytest.raises(ValueError, match=f"`follow: while_reading` of snapshot .*{said}"):
        Pipeline.model_validate(document)


def test_versions_of_rows_are_not_followed_while_reading() -> None:
    document = changed("sources", 0, "snapshot", "follow", to="while_reading")
    document["sink"] |= {"history": "_at", "deletes": "soft"}
    with pytest.raises(ValueError, match=r"follow: while_reading.*Remove `sink\.history`"):
        Pipeline.model_validate(document)


def ends(**told: Any) -> list[EndPosition]:
    times: dict[str, Any] = {"event_time_ms": 9, "complete_through_ms": 9, "event_times": "exact"}
    return [EndPosition(source="snapshot", splits=1, rows=1, **times, **told)]


class TestHowChangesInBothAreTold:
    SNAPSHOT = PostgresSnapshot(lsn=7, xmin=3, xmax=3, in_progress=[], taken_ms=9)
    HELD = HeldOffsets(next={}, exact=True, holes={})

    def rule(self, document: dict[str, Any], **told: Any) -> str:
        start = StartPosition(source="changes", evidence="offsets", time_ms=None, partitions={})
        return seam_rule(Pipeline.model_validate(document), ends(**told), start, {})

    def test_by_what_the_snapshot_can_see_though_the_start_is_exact(self) -> None:
        told = {"snapshot": self.SNAPSHOT, "offsets": self.HELD}
        assert self.rule(PIPELINE, **told) == "sequence"

    def test_a_log_position_alone_drops_nothing_where_the_sink_puts_changes_in_order(self) -> None:
        assert self.rule(PIPELINE, sequence=7) == "replay"
        start = StartPosition(source="changes", evidence="sequence", time_ms=9, partitions={})
        pipeline = Pipeline.model_validate(PIPELINE)
        said = seam_warnings(pipeline, "replay", ends(sequence=7)[0], start, 0)
        assert any("changes from before it are applied again" in text for text in said)

    def test_a_log_position_alone_is_refused_where_it_would_lose_changes(self) -> None:
        document = changed("sink", to={"path": "out", "mode": "append", "key": ["id"]})
        document["sequence"] = "_lsn"
        del document["sources"][0]["snapshot"]
        document["sources"][0]["sequence"] = "0/7"
        with pytest.raises(
            ValueError, match=r"in flight when the snapshot was taken .* would be missing"
        ):
            Pipeline.model_validate(document)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (changed("sink", "sequence", to=None), "`deleted` needs `sequence`"),
        (changed("sink", "deleted", to=None), "`sink.deleted` is needed"),
        (changed("sink", "mode", to="append"), "`sequence` has a meaning with `mode: merge` only"),
        (changed("sink", "deletes", to="maybe"), "'hard' or 'soft'"),
        (changed("sink", "sequence", to=["id"]), "it can't be in the `key`"),
        (
            changed("sources", 1, "include", "_tx", to=None),
            "Add `include: {<column>: transaction}` to",
        ),
        (changed("event_time", to="id"), r"is not the time of the commit.*Write `event_time: _at`"),
        (changed("sources", 1, "format", to="json"), "has no meaning with `format: json`"),
        (changed("sources", 0, "select", to={"id": "id"}), "Remove `select`"),
        (changed("sources", 0, "path", to="*/*.parquet"), "written to one folder"),
        (
            changed("sources", 0, "path", to="orders/a.parquet"),
            r"Write `path: <folder>/\*.parquet`",
        ),
    ],
)
def test_a_pipeline_that_can_not_be_handed_over_is_refused(
    document: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Pipeline.model_validate(document)
