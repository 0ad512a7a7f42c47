"""What runs inside Spark: the job whose classes are archived."""
