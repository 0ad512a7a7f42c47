"""Proof of the target table: an independent computation from all raw input, compared with it.

Three comparisons live here: the target against a DuckDB computation over all files and records
(:mod:`~orchestration.audit.run`), the candidate generation against the serving one
(:mod:`~orchestration.audit.compare_generations`), and the target of a captured table against its
database (:mod:`~orchestration.audit.compare_source`). Code that plans, reads or writes data for a
run does not belong here: the proof would repeat its errors.

What the audit does on its own, without Spark, plan or checkpoint:

- It finds files by expanding the globs itself. Names that begin with ``_`` or ``.`` are no data.
- DuckDB parses Parquet, JSON lines, CSV, text and the JSON of topics. fastavro and pyarrow read
  Avro and ORC files whole. Lines of JSON and CSV whose bad rows don't stop a run are split here.
- DuckDB computes the expected rows: those of ``input``, the last change of each key, or the
  pipeline's ``audit.sql``. delta-rs reads the rows of the target.

What it shares with the runs, so that an error in it stays unseen:

- The pipeline's declaration: schemas, ``key``, ``event_time``, ranges of time, ``select`` (as the
  translation to DuckDB SQL in :mod:`sources.common.select`) and the mapping of types in
  :mod:`sources.common.schema`.
- The decoder of Avro, Protobuf and Debezium records of topics (:mod:`sources.decoding.decoder`):
  for these formats the audit proves which records arrived, not what their bytes mean.
- The clients of Kafka, S3 and HDFS, with their settings, and Kafka's isolation level.
- Decisions that only the state folder records: where a bounded topic ends, where a topic starts
  that is the first source of the chain, or that follows a source with an exact end. The recount of
  the ledger also takes the start offsets, the seam and its rule, and the planned files from there;
  the recount of bad records takes the planned files and the runs' own counts.

What it assumes:

- A topic is what Kafka holds now. Rows whose records Kafka has deleted since are ``unexpected``,
  unless files hold them too.
- Of several rows with the same ``key``, the one of the first source in the declared order counts.
- A timestamp without time zone is UTC. A null equals a null.
- Floating-point numbers are equal within a relative tolerance of 1e-9, because sums depend on the
  order of their terms.
"""
