"""Code of users: transforms, functions and queries that a pipeline names, and their modules.

Belongs here: from which module a user's function is loaded, which names of modules are reserved,
and what a query in a file may be.
"""
