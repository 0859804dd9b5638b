"""The error that a mistake in a config is: one line for the user."""

LONGEST = 2000  # characters of a message
LONGEST_QUOTE = 100


class ConfigError(Exception):
    """A config that cannot be run; its message is one line, whatever the config holds."""

    def __init__(self, message: str) -> None:
        if len(message) > LONGEST:
            message = message[: LONGEST - 4] + " ..."
        super().__init__("".join(map(_printable, message)))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def quoted(value: object) -> str:
    """A value as a message quotes it, cut if it is long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # brackets in brackets, an integer of thousands of digits
        return f"a value too large to show ({type(value).__name__})"
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."
