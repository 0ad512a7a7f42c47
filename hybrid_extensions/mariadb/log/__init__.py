"""Binary log of MariaDB and MySQL: positions, statements, progress of a connector."""
