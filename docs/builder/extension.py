"""The extension of Sphinx: each part of the builder at the moment of the build that it is for."""

from sphinx.application import Sphinx

from builder import docstrings, generated, links, navigation


def setup(app: Sphinx) -> dict:
    """Connect each part to the moment of the build at which it is wanted."""
    app.connect("source-read", navigation.add)
    app.connect("source-read", generated.fill)
    app.connect("autodoc-process-docstring", docstrings.prepare, priority=100)  # before napoleon
    app.connect("build-finished", links.check, priority=900)  # when the theme is done, too
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
