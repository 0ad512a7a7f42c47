"""What runs inside Spark: a transform applied to no rows, and its analyzed plan."""
