"""A table of figures, for a terminal and for a Markdown page."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table


class Sheet(NamedTuple):
    """A table: ``#`` before a column's name aligns it right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def drawn(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in self.columns:
            table.add_column(column.lstrip("#"), justify="right" if column.startswith("#") else "left")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        """Return the table for a page."""
        rule = ["---:" if column.startswith("#") else "---" for column in self.columns]
        lines = [[column.lstrip("#") for column in self.columns], rule, *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
