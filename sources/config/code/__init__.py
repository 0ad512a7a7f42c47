"""Code of users: transforms, functions and queries that a pipeline names, and their modules."""
