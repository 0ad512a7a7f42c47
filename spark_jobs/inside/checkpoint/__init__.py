"""What Spark itself says of a checkpoint: watermark, shape of the transform."""
