"""What statements do to a table that no change of a row reports, by their text."""

from __future__ import annotations

import pytest

from hybrid_extensions.mariadb.log.statement_effects import effect_on, formulas, reused_names


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("RENAME TABLE t TO _t_del", "renamed to _t_del"),
        ("RENAME TABLE _t_gho TO t", "a different table now: _t_gho was renamed to its name"),
        ("RENAME TABLE x TO y, `shop`.`t` TO `shop`.`_t_old`, _t_new TO t", "renamed to shop._t_"),
        ("rename tables if exists t wait 5 to u", "renamed to u"),
        ("ALTER TABLE t RENAME TO u", "renamed to u"),
        ("ALTER TABLE `t` RENAME u", "renamed to u"),
        ("ALTER TABLE u RENAME AS t", "a different table now: u was renamed"),
        ("ALTER TABLE other.t RENAME shop.t", "a different table now: other.t was renamed"),
        ("CREATE OR REPLACE TABLE t (id int primary key)", "CREATE OR REPLACE TABLE"),
        ("DROP DATABASE IF EXISTS `shop`", "dropped with its database"),
        ("ALTER TABLE t TRUNCATE PARTITION p0", "TRUNCATE PARTITION"),
        ("ALTER TABLE shop.t DROP PARTITION IF EXISTS p0, p1", "DROP PARTITION"),
        ("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x", "EXCHANGE PARTITION"),
        ("ALTER TABLE x EXCHANGE PARTITION p0 WITH TABLE t WITHOUT VALIDATION", "was exchanged"),
        ("ALTER TABLE t CONVERT PARTITION p0 TO TABLE x", "CONVERT PARTITION"),
        ("ALTER TABLE t CONVERT TABLE x TO PARTITION p0 VALUES LESS THAN (9)", "a table became"),
        ("ALTER TABLE t DISCARD TABLESPACE", "DISCARD TABLESPACE"),
        ("ALTER TABLE t IMPORT TABLESPACE", "IMPORT TABLESPACE"),
        ("ALTER ONLINE IGNORE TABLE t ADD UNIQUE (v)", "ALTER IGNORE TABLE removes"),
        ("ALTER /* don't */ TABLE t /*!50100 DROP PARTITION p0 */", "DROP PARTITION"),
        ("ALTER TABLE T DROP PARTITION p0", "DROP PARTITION"),
        ("ALTER TABLE t ENGINE = BLACKHOLE", "ENGINE = BLACKHOLE does not keep"),
        ("alter table t comment 'x', engine `Memory`", "ENGINE = MEMORY does not keep"),
        ("SET STATEMENT lock_wait_timeout=5, x='a FOR b' FOR RENAME TABLE t TO u", "renamed to u"),
        ("set statement x=1 for alter table t truncate partition p0", "TRUNCATE PARTITION"),
    ],
)
def test_a_table_has_other_rows_or_is_another_one(statement: str, expected: str) -> None:
    found = effect_on("shop.t", statement, "shop")
    assert found is not None
    assert expected in found


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t REORGANIZE PARTITION p0 INTO (PARTITION p00 VALUES LESS THAN (5))",
        "ALTER TABLE t ADD PARTITION (PARTITION p9 VALUES LESS THAN (99))",
        "ALTER TABLE t COALESCE PARTITION 2",
        "ALTER TABLE t COMMENT 'it''s time to DROP PARTITION p0'",
        "ALTER TABLE t RENAME INDEX a TO b, RENAME KEY c TO d",
        "ALTER TABLE t RENAME COLUMN v TO t",
        "ALTER TABLE t ENGINE=InnoDB -- rename to u",
        "ALTER TABLE u DROP PARTITION p0",
        "ALTER TABLE other.t DROP PARTITION p0",
        "RENAME TABLE u TO v, other.t TO other.x",
        "CREATE TABLE IF NOT EXISTS t (id int)",
        "CREATE OR REPLACE TABLE t2 (id int)",
        "DROP DATABASE shop2",
        "CREATE INDEX i ON t (v)",
        "TRUNCATE TABLE t",
    ],
)
def test_statements_without_an_effect_leave_the_rows_of_a_table(statement: str) -> None:
    assert effect_on("shop.t", statement, "shop") is None


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN w TO v", {"v", "w"}),
        ("ALTER TABLE t CHANGE v w int, CHANGE COLUMN `a` `A` int", {"w"}),
        ("ALTER TABLE t DROP v, ADD v int", {"v"}),
        ("ALTER TABLE t DROP COLUMN IF EXISTS `v`, DROP PRIMARY KEY, DROP KEY k", {"v"}),
        ("ALTER TABLE t MODIFY v bigint, ALTER v DROP DEFAULT, DROP FOREIGN KEY f", set()),
    ],
)
def test_names_that_another_column_may_have_afterwards(statement: str, expected: set[str]) -> None:
    assert reused_names(statement) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE t MODIFY v int AS (id * 2) STORED", {"v"}),
        ("ALTER TABLE t CHANGE COLUMN `v` `v` decimal(9,2) GENERATED ALWAYS AS (id)", {"v"}),
        ("ALTER TABLE t MODIFY v int, ADD x int AS (id * 2)", set()),
        ("ALTER TABLE t MODIFY v int COMMENT 'as (before)'", set()),
    ],
)
def test_columns_that_get_a_formula(statement: str, expected: set[str]) -> None:
    assert formulas(statement) == expected


def test_a_name_that_debezium_could_not_read_may_be_that_of_the_table() -> None:
    statement = "ALTER TABLE `gr\ufffd\ufffde` DROP PARTITION p0"
    assert effect_on("shop.größe", statement, "shop") == "has other rows now: DROP PARTITION"
    assert effect_on("shop.grün", statement, "shop") is None
