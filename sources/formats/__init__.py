"""One module for each file format: its columns, its splits, and how a split is read.

Belongs here: what differs between Parquet, ORC, Avro, CSV, JSON lines and text files. Does not
belong here: the values of Kafka records (`decoding`), and choosing files to read (`files`).
"""
