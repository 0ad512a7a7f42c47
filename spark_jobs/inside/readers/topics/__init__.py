"""Reading of topics in Spark: raw records, their parsing, and checks of their rows."""
