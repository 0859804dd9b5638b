"""Tables on a terminal: a number is never cut, what is too wide becomes several tables."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from expograph.analysis.table_result import TableResult
from expograph.report.layout import Layout, layout, one_line, split

ENDLESS = 100_000  # characters of a line that goes to a file or a pipe
GAP = 3  # characters that a border and the space around a cell take


class Screen:
    """A table for `rich`: in a terminal's width, in its natural one where there is no terminal.

    Print it with `crop=False`, as `show` does: rich cuts lines at 80 characters in a pipe.
    """

    def __init__(self, table: TableResult, name: str = "") -> None:
        """Show a table; `name` stands before its heading."""
        self.layout: Layout = layout(table)
        self.title = one_line(f"{name}: {self.layout.heading}" if name else self.layout.heading)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        endless = options.update(width=ENDLESS)
        if options.is_terminal:
            yield Text(self.title, "italic")
            tables = [
                self._block(block) for block in split(self.layout, options.max_width - 1, GAP)
            ]
        else:
            yield from console.render(Text(self.title), endless)
            tables = [self._whole()]
        for table in tables:
            yield from console.render(table, endless)

    def _whole(self) -> Table:
        names = [[name] for name, _ in self.layout.columns]
        texts = [[[entry.text] for entry in row] for row in self.layout.rows]
        return self._block([list(column) for column in zip(names, *texts, strict=True)])

    def _block(self, columns: list[list[list[str]]]) -> Table:
        """A table of columns of places of lines; the heading's place is the first of each."""
        headings, *rows = zip(*columns, strict=True)
        table = Table(expand=False)
        for lines in headings:
            table.add_column(_text(lines), no_wrap=True)
        for row in rows:
            table.add_row(*map(_text, row))
        return table


def _text(lines: list[str]) -> Text:
    return Text("\n".join(lines))  # never markup, whatever a name has in it


def show(console: Console, screens: Iterable[Screen]) -> None:
    """Print tables, each line whole."""
    for screen in screens:
        console.print(screen, crop=False)
