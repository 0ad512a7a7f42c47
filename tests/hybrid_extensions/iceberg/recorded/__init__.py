"""Iceberg tables that Spark 4.1 wrote with Iceberg 1.12, and the rows that it read from them."""
