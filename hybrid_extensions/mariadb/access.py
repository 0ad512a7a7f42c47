"""Access to MariaDB and MySQL: the functions that implement the operations of a database kind."""

from hybrid_extensions.cdc.databases.access import Access
from hybrid_extensions.mariadb.added_columns import find_added_columns, find_types
from hybrid_extensions.mariadb.gone_columns import find_gone_columns
from hybrid_extensions.mariadb.log.log_end import mark_log
from hybrid_extensions.mariadb.log.mariadb_log import ask_log
from hybrid_extensions.mariadb.log.silence import ask_silence
from hybrid_extensions.mariadb.server import server_of
from hybrid_extensions.mariadb.snapshot.table import export, open_table
from hybrid_extensions.mariadb.table_look import look_at_table
from hybrid_extensions.mariadb.tables import find_tables

BINLOG_ACCESS = Access(
    open_table=open_table,
    export=export,
    find_tables=find_tables,
    mark_log=mark_log,
    # A snapshot is a position of the log.
    settle_log=lambda _options, _within_s: 0,
    ask_slot=ask_log,
    find_added_columns=find_added_columns,
    find_gone_columns=find_gone_columns,
    find_types=find_types,
    look_at_table=look_at_table,
    server_of=server_of,
    ask_silence=ask_silence,
)
