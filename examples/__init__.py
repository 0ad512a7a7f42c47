"""Pipelines that run, and the real data behind them."""
