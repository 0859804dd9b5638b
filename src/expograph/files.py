"""Files that a reader sees old or new, never half-written, and those that cannot be used."""

import os
from pathlib import Path


class DamagedFile(ValueError):
    """A file that we wrote is cut short or of another form; its message is one line, file first."""


def replace_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file so that a reader sees the old or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # two may write at once
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
