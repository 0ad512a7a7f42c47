"""Upkeep that a file with `tables` declares is that of each table."""

from pathlib import Path

from hybrid_extensions.upkeep.declare import UpkeepSection
from tests.hybrid_extensions.cdc.tables.test_template import ORDERS, template


def test_a_file_with_tables_declares_upkeep_for_each_of_them(tmp_path: Path) -> None:
    schedule = {"name": "nightly", "cron": "0 3 * * *", "action": "compact"}
    loaded = template(tmp_path, upkeep=[schedule]).write(ORDERS)
    (found,) = loaded.section(UpkeepSection).upkeep
    assert (found.name, found.action) == ("nightly", "compact")
