"""What runs inside Spark, and how such a run is started, found again and stopped."""
