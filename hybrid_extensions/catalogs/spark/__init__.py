"""What runs inside Spark."""
