"""Storages of files: local disks, object stores with the S3 API, and HDFS.

Belongs here: opening and listing files, credentials of a store, partition values in folder names;
conditional writes of documents, and how often a folder in a store is looked at at most, as requests
cost money (`folder`). Does not belong here: what is inside the files (`formats`), and which of them
are read (`files`).
"""
