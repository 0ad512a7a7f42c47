"""What runs inside Spark: drivers, queries, readers and the sink; only these rooms import it."""
