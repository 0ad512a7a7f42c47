"""GTIDs of MariaDB: domain, server and sequence number; a log with several domains is refused.

https://mariadb.com/kb/en/gtid/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hybrid_extensions.cdc.databases.captured_table import Misfit

ONE_DOMAIN = (
    "Let the server write one domain, and remove the others with `FLUSH BINARY LOGS "
    "DELETE_DOMAIN_ID=(…)`, or name a server with one domain in `snapshot.dsn`"
)
"""What to do about several domains, as a sentence without its end."""


class Gtid(NamedTuple):
    """Global transaction id of MariaDB.

    Attributes:
        domain: Number of its domain, within which transactions have the order of their sequence
            numbers.
        server: Id of the server that it was committed at first; replicas keep it. None if unknown.
        sequence: Sequence number; 0 before the first transaction.
    """

    domain: int
    server: int | None
    sequence: int

    def __str__(self) -> str:
        """Return the GTID as MariaDB writes it."""
        return f"{self.domain}-{self.server or 0}-{self.sequence}"


def parse_gtids(text: str) -> list[Gtid]:
    """Return the GTIDs in MariaDB's list, such as ``0-1-129,1-1-7``; empty for MySQL's GTIDs.

    Parts of another form are left out.
    """
    parts = [each.strip().split("-") for each in text.split(",") if ":" not in each]
    return [Gtid(*map(int, each)) for each in parts if len(each) == 3]


def only_gtid(text: str, variables: Mapping[str, str]) -> Gtid:
    """Return the last GTID of a binary log; refuse a log with several domains.

    Args:
        text: The log's last GTID of each domain, such as ``gtid_binlog_pos``; may be empty.
        variables: The server's variables.

    Returns:
        A GTID with sequence number 0 if the log has none.

    Raises:
        Misfit: It has several domains, or the server writes another one.
    """
    gtids = parse_gtids(text)
    domains = {each.domain for each in gtids}
    declared = int(variables["gtid_domain_id"])
    is_replica = bool(variables.get("gtid_slave_pos"))
    if len(domains) > 1 or (domains and not is_replica and domains != {declared}):
        known = ", ".join(map(str, sorted(domains)))
        has = f"several domains ({known})"
        if len(domains) == 1:
            has = f"domain {known}, and the server writes domain {declared} (`gtid_domain_id`)"
        text = (
            f"The binary log has GTIDs of {has}: the order of changes of different domains is not "
            "known"
        )
        raise Misfit(text)
    return max(gtids, key=lambda each: each.sequence, default=Gtid(declared, None, 0))
