"""Measurements of machines: how fast, how much memory, and whether the engines agree."""
