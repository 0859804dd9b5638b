"""The order of the pages in the sidebar.

It is added to a page while the site is built, so that the page itself stays plain Markdown. A page
that stands nowhere here is an error of the build.
"""

PAGES = {  # heading -> page, as Sphinx names it (the path without .md) -> its short title
    "Start": {
        "README": "Overview",
        "docs/getting-started": "Getting started",
        "docs/concepts": "Concepts",
    },
    "How to": {
        "docs/how-to": "One task a section",
        "docs/averager": "Averaging in your own loop",
        "docs/extend": "Parts of your own",
        "docs/cluster": "On a cluster",
        "docs/paper-scale": "At the paper's scale",
    },
    "What is known": {
        "docs/choose": "Which graph for my cluster",
        "docs/any-n": "n not a power of two",
        "docs/results": "What came out",
        "docs/theory": "Theory",
        "docs/performance": "Performance",
        "docs/differences": "What differs from the paper",
    },
    "Reference": {
        "docs/api": "The library",
        "docs/reference/python": "Public names",
        "docs/reference/config": "Config keys",
        "docs/reference/graphs": "Topologies and algorithms",
        "docs/commands": "The command line",
        "docs/reference/command-line": "Every command",
        "docs/map": "Map of the repository",
    },
    "Project": {"CONTRIBUTING": "Contributing", "CHANGELOG": "Changes"},
}
STEP = "results/bench_comm"
TABLES = [  # below the page of results; those of one heading have titles of their own
    "/results/claims",
    "/results/reliability",
    f"Time of a step, one machine </{STEP}/one_machine/table>",
    f"Time of a step, 1 Gbit/s </{STEP}/testbed_1gbit/table>",
    f"Time of a step, 100 Mbit/s </{STEP}/testbed_100mbit/table>",
    "/results/**/table",
]
ROOT, RESULTS = "docs/index", "docs/results"


def add(app: object, page: str, source: list[str]) -> None:
    """Append the tables of contents to the pages that carry them; nothing of them is seen there."""
    if page == ROOT:
        for heading, pages in PAGES.items():
            lines = [f"{title} </{name}>" for name, title in pages.items()]
            source[0] += _contents(lines, f":caption: {heading}\n")
    elif page == RESULTS:
        source[0] += _contents(TABLES, ":glob:\n")


def _contents(pages: list[str], options: str) -> str:
    return f"\n\n```{{toctree}}\n:hidden:\n{options}\n" + "\n".join(pages) + "\n```\n"
