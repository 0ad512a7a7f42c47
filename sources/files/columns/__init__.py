"""Files whose columns differ from those that they are read as.

Belongs here: which differences between files are read without loss, by what a renamed column is
found in a file, and the type of a column that has no value.
"""
