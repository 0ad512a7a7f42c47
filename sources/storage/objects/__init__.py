"""Object stores: S3, Azure, Google Cloud Storage."""
