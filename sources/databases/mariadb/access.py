"""Access to MariaDB and MySQL."""

from sources.databases.access import Access
from sources.databases.mariadb.added_columns import find_added_columns, find_types
from sources.databases.mariadb.log.binlog import ask_log
from sources.databases.mariadb.log.mark import mark_log
from sources.databases.mariadb.server import server_of
from sources.databases.mariadb.snapshot.table import export, open_table
from sources.databases.mariadb.table_look import look_at_table
from sources.databases.mariadb.tables import find_tables

BINLOG_ACCESS = Access(
    open_table=open_table,
    export=export,
    find_tables=find_tables,
    mark_log=mark_log,
    ask_slot=ask_log,
    find_added_columns=find_added_columns,
    find_types=find_types,
    look_at_table=look_at_table,
    server_of=server_of,
)
