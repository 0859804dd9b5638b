"""Files that a reader sees old or new, never half-written."""

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file so that a reader sees the old or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # two may write at once
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
