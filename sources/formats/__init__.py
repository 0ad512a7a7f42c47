"""One module for each file format: its columns, its splits, and how a split is read.

Belongs here: Parquet, and what all formats share, such as errors that begin with the file's path
(`open_file`); the others are extensions. Does not belong here: the values of Kafka records
(`decoding`), and choosing files to read (`files`).
"""
