"""Random tables, written as other tools write them: equal to Spark's reader, or refused by name."""
