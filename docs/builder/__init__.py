"""What is ours in the making of the site. Only `extension` and `links` need Sphinx.

extension    connects the other parts to the build
navigation   the order of the pages, in the sidebar
generated    parts of pages that are made from the package: names, config keys, tables, commands
docstrings   our docstrings, which are plain text with equations, as reStructuredText
links        every link, anchor and loaded file of the built pages, checked
"""
