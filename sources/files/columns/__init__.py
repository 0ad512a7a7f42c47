"""Files whose columns differ from those that they are read as."""
