"""Upgrades: what earlier versions left is continued by this one."""
