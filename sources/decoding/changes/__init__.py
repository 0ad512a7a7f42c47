"""Changes of a captured table, as Debezium writes them: decoding, positions, later columns."""
