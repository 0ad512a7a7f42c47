"""Comparison of the candidate's table with the serving one.

Belongs here: which of the candidate's rows are the same as the serving ones, and how much
distributions of numbers differ.
"""
