"""Settings of the documentation's site: `make docs` builds it into build/docs.

The source folder is the repository itself, so that a link from a page to README, to a table of the
results or to a config is the same on a code host and in the site. What is ours in the making of
the site lies in docs/builder/.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

import expograph  # noqa: E402

project = "expograph"
author = "the authors of expograph"
copyright = "the authors of expograph, MIT licence"
release = version = expograph.__version__

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**.md",
    "results/claims.md",
    "results/reliability.md",
    "results/*/table.md",
    "results/bench_comm/*/table.md",
    "results/wall_clock/*/table.md",
]
exclude_patterns = [
    *(".*", "build", "data", "src", "tests", "scripts", "notebooks", "configs"),
    *("results/runs", "results/running", "results/mine", "results/custom", "results/report"),
    *("results/tensorboard",),
]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "builder.extension",
]

# Markdown: no extensions beyond what code hosts render, except for generated parts (builder/)
myst_heading_anchors = 4
myst_links_external_new_tab = False
highlight_language = "none"
smartquotes_action = "D"  # dashes alone: "text" in quotes is a value

# Docstrings: builder/docstrings.py prepares them, napoleon reads their sections
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
maximum_signature_line_length = 70
add_module_names = False

# Nothing is loaded from a network: builder/links.py fails the build otherwise
html_theme = "furo"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_title = "expograph"
html_static_path = ["builder/static"]
html_css_files = ["site.css"]
html_extra_path = ["builder/root"]  # index.html at the top, which leads to docs/index.html
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#00694c",
        "color-brand-content": "#00694c",
        "color-brand-visited": "#00694c",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5ec9a8",
        "color-brand-content": "#5ec9a8",
        "color-brand-visited": "#5ec9a8",
    },
}
copybutton_exclude = ".linenos, .gp, .go"
