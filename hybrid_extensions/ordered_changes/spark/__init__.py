"""What runs inside Spark: merging of changes in their order."""
