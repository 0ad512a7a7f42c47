"""Binary log of MariaDB and MySQL: positions, statements, progress of a connector.

Belongs here: how far a connector lags, whether the server still has the log that it needs, which
statements altered a table, and whether they change values of older rows.
"""
