"""What runs inside Spark: the driver that pipelines share."""
