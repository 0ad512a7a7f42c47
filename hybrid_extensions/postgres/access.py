"""Access to PostgreSQL: the functions that implement the operations of a database kind."""

from hybrid_extensions.cdc.databases.access import Access
from hybrid_extensions.libpq.connections import server_of
from hybrid_extensions.postgres.added_columns import find_added_columns, find_types
from hybrid_extensions.postgres.gone_columns import find_gone_columns
from hybrid_extensions.postgres.in_flight import settle_log
from hybrid_extensions.postgres.log_end import mark_log
from hybrid_extensions.postgres.slot import ask_slot
from hybrid_extensions.postgres.table import export, open_table
from hybrid_extensions.postgres.tables import find_tables
from hybrid_extensions.postgres.watch.table_look import look_at_table

POSTGRES_ACCESS = Access(
    open_table=open_table,
    export=export,
    find_tables=find_tables,
    mark_log=mark_log,
    settle_log=settle_log,
    ask_slot=ask_slot,
    find_added_columns=find_added_columns,
    find_gone_columns=find_gone_columns,
    find_types=find_types,
    # The catalog alone decides.
    look_at_table=lambda table, topic, names, before, _: look_at_table(table, topic, names, before),
    server_of=server_of,
)
