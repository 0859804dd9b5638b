"""Processes that work together: groups of ranks, the virtual cluster, what a machine lacks."""
