"""How Spark reads topics: records as they are, their parsing, and the checks of their rows."""
