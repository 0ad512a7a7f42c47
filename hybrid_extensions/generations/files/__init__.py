"""Files of the serving table that generations, ranges and upkeep replace or remove."""
