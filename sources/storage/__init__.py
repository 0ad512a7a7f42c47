"""Where files lie: local disks, object stores that speak S3, and HDFS.

Belongs here: opening and listing files, logging in to a store, partition values in folder names.
Does not belong here: what is inside the files (`formats`), and which of them are read (`files`).
"""
