"""What runs inside Spark: later columns of a captured table in the target, and transforms."""
