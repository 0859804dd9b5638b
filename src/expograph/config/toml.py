"""TOML files, read whatever they hold: what is wrong with one is a line with its name."""

import tomllib
from pathlib import Path
from typing import Any

from expograph.config.errors import ConfigError, quoted

LARGEST = 2**20  # bytes; the parser takes seconds for some megabytes


def read_toml(path: Path, kind: str | None = None) -> dict[str, Any]:
    """What a TOML file holds. It is UTF-8 whatever the locale, with or without a byte-order mark.

    Args:
        path: the file.
        kind: what its key `kind` has to say, if it is there. The key is then left out.
    Raises:
        ConfigError: one line naming the file, if it cannot be read, is no TOML or of another kind.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ConfigError(f"{path}: is larger than {LARGEST} bytes: no config of ours")
        values = parse(content.decode("utf-8-sig"))
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror}") from None
    except ValueError as e:  # an unreadable character, or not TOML
        raise ConfigError(f"{path}: not valid TOML: {e}") from None
    found = values.pop("kind", kind) if kind else None
    if found != kind:
        raise ConfigError(f"{path}: kind: expected {kind!r}, got {quoted(found)}")
    return values


def parse(text: str) -> dict[str, Any]:
    """TOML text.

    Raises:
        ValueError: if it is none, in one line.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("brackets nested too deeply") from None
    except ValueError as e:
        if isinstance(e, tomllib.TOMLDecodeError):
            raise
        raise ValueError("an integer of thousands of digits") from None


def published_numbers(config: Path) -> Path:
    """The file of numbers published elsewhere that belongs to a config: beside it."""
    return config.with_name("published.toml")
