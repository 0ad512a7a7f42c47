"""Tables of MariaDB and MySQL are altered in their own ways: what no change reports is found.

A real connector reports the statements, and a real server has the catalog; no run is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from hybrid_extensions.cdc.databases.altered_table import (
    TableWatch,
    keep_table_watch,
    withdraw_alteration,
)
from hybrid_extensions.cdc.databases.table_watch import inspect_table, inspect_uncompared
from sources.common.positions import EndPosition
from sources.config.loader import LoadedPipeline
from tests.e2e.changes.binlog_case import BinlogCase
from tests.e2e.changes.cdc_case import take_snapshot
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.slow]
COLUMNS = {
    "id": "int",
    "v": "int",
    "w": "string",
    "a": "decimal(12,4)",
    "e": "string",
    "n": "int",
}
CREATE = (
    "CREATE TABLE {table} (id int PRIMARY KEY, v int, w varchar(9) CHARACTER SET utf8mb4, "
    "a decimal(12,4), e enum('p','q'), n int) {partitions}"
)
PARTITIONS = (
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), "
    "PARTITION p1 VALUES LESS THAN MAXVALUE)"
)


class Way(NamedTuple):
    """One way to alter a table: statements with its name, and what is found."""

    statements: list[str]
    found: str | None
    partitions: bool = False


# Of a table `t` there are also `t_new`, of the same form, and `t_old` is free.
WAYS = {
    "swapped": Way(["RENAME TABLE {t} TO {t}_old, {t}_new TO {t}"], "is no longer there under its"),
    "replaced": Way(["DROP TABLE {t}", CREATE], "was dropped"),
    "renamed": Way(["ALTER TABLE {t} RENAME TO {t}_old", CREATE], "renamed to renamed_old"),
    "dropped": Way(["DROP TABLE {t}"], "was dropped"),
    "other_key": Way(["ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)"], "primary key"),
    "narrow": Way(["ALTER TABLE {t} MODIFY a decimal(12,1)"], r"`a` as decimal\(12,1\) now"),
    "there_and_back": Way(
        ["ALTER TABLE {t} MODIFY w varchar(2)", "ALTER TABLE {t} MODIFY w varchar(9)"],
        r"`w` as varchar\(2\) now",
    ),
    "enumerated": Way(["ALTER TABLE {t} MODIFY e enum('q','p2')"], r"`e` as enum\('q','p2'\)"),
    "western": Way(["ALTER TABLE {t} CONVERT TO CHARACTER SET latin1"], "of latin1 now"),
    "western_and_back": Way(
        [
            "ALTER TABLE {t} CONVERT TO CHARACTER SET latin1",
            "ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4",
        ],
        "of latin1 now",
    ),
    "in_memory": Way(
        ["ALTER TABLE {t} ENGINE = MEMORY", "ALTER TABLE {t} ENGINE = InnoDB"],
        "ENGINE = MEMORY does not keep",
    ),
    "swapped_in_turn": Way(
        ["RENAME TABLE {t} TO {t}_old, {t}_new TO {t}, {t}_old TO {t}_new"], "is no longer there"
    ),
    # Without nulls in the target.
    "required": Way(["ALTER TABLE {t} MODIFY n int NOT NULL"], None),
    "other_column": Way(
        ["ALTER TABLE {t} DROP n", "ALTER TABLE {t} ADD n int"], "another column named `n`"
    ),
    "mixed_up": Way(
        ["ALTER TABLE {t} RENAME COLUMN n TO v, RENAME COLUMN v TO n"], "another column named `n`"
    ),
    "emptied": Way(["ALTER TABLE {t} TRUNCATE PARTITION p0"], "TRUNCATE PARTITION", True),
    "shorter": Way(["ALTER TABLE {t} DROP PARTITION p0"], "DROP PARTITION", True),
    "exchanged": Way(
        ["ALTER TABLE {t} EXCHANGE PARTITION p0 WITH TABLE {t}_new"], "EXCHANGE PARTITION", True
    ),
    "not_logged": Way(["ALTER TABLE {t} ENGINE = MyISAM"], "engine MyISAM, which has no snap"),
    "wide": Way(
        [
            "ALTER TABLE {t} MODIFY a decimal(14,4), MODIFY w varchar(20), MODIFY v bigint",
            "ALTER TABLE {t} MODIFY e enum('p','q','r'), ADD x int DEFAULT 3, ADD INDEX (v)",
            "CREATE INDEX more ON {t} (n)",
            "ALTER TABLE {t} COMMENT 'ready to DROP PARTITION p0'",
            "ALTER TABLE {t} ENGINE = InnoDB",
        ],
        None,
    ),
    "divided": Way(
        [
            "ALTER TABLE {t} REORGANIZE PARTITION p0 INTO (PARTITION p00 VALUES LESS THAN (5), "
            "PARTITION p01 VALUES LESS THAN (10))",
            "TRUNCATE TABLE {t}",
        ],
        None,
        True,
    ),
    "last": Way(["DROP TABLE {t}"], "was dropped"),
}
OF_MARIADB = {
    "with_variables": Way(
        ["SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE {t} TRUNCATE PARTITION p0"],
        "TRUNCATE PARTITION",
        True,
    ),
    "replaced_at_once": Way(["CREATE OR REPLACE TABLE {t} (id int PRIMARY KEY)"], "OR REPLACE"),
    **WAYS,
}


def made(case: BinlogCase, ways: dict[str, Way]) -> dict[str, LoadedPipeline]:
    """The pipelines of tables whose snapshots are read, by name."""
    for name, way in ways.items():
        partitions = PARTITIONS if way.partitions else ""
        case.execute(
            CREATE.format(table=name, partitions=partitions),
            CREATE.format(table=f"{name}_new", partitions=""),
            f"INSERT INTO {name} VALUES (1, 1, 'ab', 1.2, 'q', 1), (20, 2, 'b', 2, 'q', 2)",
        )
    case.capture(list(ways))
    found = {}
    for name in ways:
        loaded = found[name] = case.pipeline(name, COLUMNS)
        manifest = take_snapshot(loaded)
        end = EndPosition(
            source="snapshot",
            event_time_ms=manifest.seen.taken_ms,
            complete_through_ms=manifest.seen.taken_ms,
            event_times="exact",
            snapshot=manifest.seen,
            definition=manifest.definition,
            splits=1,
            rows=2,
        )
        generation = loaded.open_generation(create=True)
        assert generation is not None
        generation.replace("positions/snapshot-end.json", end)
    return found


def look(loaded: LoadedPipeline) -> TableWatch:
    """What one look sees, kept for the next."""
    generation = loaded.require_generation()
    seen = inspect_table(loaded, generation)
    assert seen is not None
    keep_table_watch(generation, seen)
    return seen


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_what_no_change_reports_is_found_and_all_else_goes_on(
    request: pytest.FixtureRequest, kind: str
) -> None:
    case: BinlogCase = request.getfixturevalue(f"{kind}_case")
    ways = OF_MARIADB if kind == "mariadb" else WAYS
    tables = made(case, ways)
    for name, loaded in tables.items():
        seen = look(loaded)
        assert (seen.doubt, seen.altered) == (None, None), name
    for name, way in ways.items():
        partitions = PARTITIONS if way.partitions else ""
        for each in way.statements:
            case.execute(each.format(t=name, table=name, partitions=partitions))
    # The connector reports the statements in their order.
    wait_for(lambda: look(tables["last"]).altered is not None, "the last statement", 60)
    found = {}
    for name, loaded in tables.items():
        altered = look(loaded).altered
        found[name] = altered
        # It stays, whatever comes later.
        assert look(loaded).altered == altered
    for name, way in ways.items():
        altered = found[name]
        assert (altered is None) == (way.found is None), (name, altered)
        if altered is None or way.found is None:
            continue
        with pytest.raises(Exception, match=way.found):
            raise altered.error()
        if name != "not_logged":
            assert altered.statement is not None
            assert altered.since_ms is not None

    # A table whose rows are known to be equal goes on from what it is now.
    narrow = tables["narrow"]
    anew = inspect_uncompared(narrow, narrow.require_generation())
    assert anew is not None
    withdraw_alteration(narrow.require_generation(), anew)
    assert look(narrow).altered is None
    case.execute("ALTER TABLE narrow MODIFY a decimal(11,1)")
    wait_for(lambda: look(narrow).altered is not None, "the next statement", 60)
    dropped = tables["dropped"]
    assert inspect_uncompared(dropped, dropped.require_generation()) is None
