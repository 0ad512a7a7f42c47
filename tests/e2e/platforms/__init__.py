"""Object stores, HDFS, clusters and secured brokers end to end."""
