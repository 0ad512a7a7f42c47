"""Audit: the table computed from all raw input by DuckDB, and compared with it row by row.

Belongs here: everything that computes a verdict: which input is read and at which version, which
rows are expected, and what could not be proved; and the command and the action that ask for one.
Does not belong here: the verdict as it is kept and shown, and what else compares two tables
(:mod:`orchestration.comparison`). Code that plans, reads or writes data for a run does not belong
here either: the proof would repeat its errors.

What the audit does on its own, without Spark, plan or checkpoint:

- It finds files by expanding the globs itself. Names that begin with ``_`` or ``.`` are no data.
- DuckDB parses Parquet, JSON lines, CSV, text and the JSON of topics. fastavro and pyarrow read
  Avro and ORC files whole. Lines of JSON and CSV whose bad rows don't stop a run are split here
  (:mod:`hybrid_extensions.audit.readers`).
- DuckDB applies the bounds of event times to the raw input
  (:mod:`hybrid_extensions.audit.computed.event_times`), and decides which version of a row counts:
  the last one by ``sink.sequence``. Without it, rows of a key that differ are reported as
  ambiguous; none of them is chosen (:mod:`hybrid_extensions.audit.computed.row_versions`).
- DuckDB computes the expected rows: those of ``input``, the last change of each key, or the
  pipeline's ``audit.sql``. delta-rs reads the rows of the target.
- Whether a row is missing, doubled, unexpected or different is decided in
  :func:`hybrid_extensions.comparison.compare_tables.compare`, by how often its key is expected and
  found.

What could not be checked is ``unknown``, which is never as good as right; the reason is in the
report (:mod:`orchestration.comparison.report`).

What it shares with the runs:

- The pipeline's declaration: schemas, ``key``, ``event_time``, ranges of time, ``select``,
  ``rules`` (as the translation to DuckDB SQL by the extension `expressions`, which is proven equal
  to Spark; what is not proven is not compared) and ``sample``, and the mapping of types in
  :mod:`sources.common.schema`.
- The decoder of Avro, Protobuf and Debezium records of topics
  (:mod:`sources.decoding.row_decoder`): for these formats the audit proves which records arrived,
  not what their bytes mean.
- The clients of Kafka, S3 and HDFS, with their settings, and Kafka's isolation level.
- Decisions that only the state folder records: where a bounded topic ends, where a topic starts
  that is the first source of the chain, or that follows a source with an exact end; and the plan's
  clock, for the bounds of event times in files. The recount of the ledger also takes the start
  offsets, the seam and its rule, and the planned files from there; the recount of bad records
  takes the planned files and the runs' own counts.
- What the quarantine says about records of a topic that were ahead of a clock, as far as that can
  be true.

Each of its assumptions is in the table of docs/audit.md, with how an error in it would be seen and
the test in which a run errs so.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "audit",
    commands="hybrid_extensions.audit.cli:app",
    definitions="hybrid_extensions.audit.dagster:definitions",
    actions="hybrid_extensions.audit.dagster:actions",
    audit="hybrid_extensions.audit.input_audit:AUDIT",
)
