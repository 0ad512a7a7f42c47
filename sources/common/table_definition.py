"""Definitions of tables in a database's catalog, by which later alterations are detected.

One class for each way in which databases describe tables. Neither needs a database to be compared.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Definition(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PostgresColumn(_Definition):
    """A column in PostgreSQL's catalog.

    Attributes:
        number: Its number; columns are numbered as they are added, and a renamed one keeps its.
        type: Its type with parameters, such as ``numeric(12,4)``.
        changed_by: Transaction that wrote its entry in the catalog, an id of 32 bits.
        labels: Labels of an enumeration, by their ids in the catalog; empty for other types.
        has_default: Whether a row that says nothing of it gets a value.
    """

    number: int
    type: str
    changed_by: str
    labels: dict[str, str] = {}
    has_default: bool = False


class PostgresFile(_Definition):
    """File of a table, or of a partition of it, in PostgreSQL's catalog.

    Attributes:
        name: Name of the table or partition, ``schema.table``.
        node: Number of the file (``relfilenode``); it changes when the table is emptied or
            rewritten.
        written_by: Transaction that wrote the catalog entry with this number, an id of 32 bits.
        attached_by: Transaction that made it a partition; empty for the table itself.
        attached_at: Number of the command in this transaction.
        is_empty: Whether no row was written to it since it got this number.
        created_by: Transaction that created the table or partition; empty if that is not known.
    """

    name: str
    node: str
    written_by: str
    attached_by: str = ""
    attached_at: int = 0
    is_empty: bool = False
    created_by: str = ""


class PostgresDefinition(_Definition):
    """A table as PostgreSQL's catalog describes it, to detect later alterations.

    Attributes:
        oid: Its id; another table has another one, whatever its name.
        identity: Which columns updates and deletes carry (``pg_class.relreplident``).
        key: Columns of its primary key, in order; empty without one.
        columns: Its columns by name.
        files: Files of the table and of its partitions that have rows, by id of the table.
        horizon: Transaction id of 32 bits; all transactions before it had ended.
    """

    oid: str
    identity: str
    key: list[str]
    columns: dict[str, PostgresColumn]
    files: dict[str, PostgresFile]
    horizon: str


class BinlogColumn(_Definition):
    """A column in the catalog of MariaDB or MySQL.

    Attributes:
        type: Its type in lower case with parameters, such as ``decimal(12,4)``, without those that
            only say how it is displayed.
        charset: Character set of a text; empty for other types.
        is_nullable: Whether it may be null.
        is_generated: Whether the database computes it.
    """

    type: str
    charset: str = ""
    is_nullable: bool = True
    is_generated: bool = False


class BinlogDefinition(_Definition):
    """A table as the catalog of MariaDB or MySQL describes it, to detect later alterations.

    Attributes:
        key: Columns of its primary key, in order; empty without one.
        columns: Its columns by name.
    """

    key: list[str]
    columns: dict[str, BinlogColumn]


TableDefinition = PostgresDefinition | BinlogDefinition
"""What the catalog of a database of any kind says of a table."""
