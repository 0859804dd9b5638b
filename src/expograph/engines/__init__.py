"""Engines: where the workers live and how their rows are averaged. One file an engine."""
