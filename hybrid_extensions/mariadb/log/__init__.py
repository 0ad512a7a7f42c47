"""The binary log of MariaDB and MySQL: positions, statements, what a connector has read."""
