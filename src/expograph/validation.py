"""Files read into pydantic models; what is wrong, as one line for whoever wrote the file."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from expograph.names import closest

# frozen, no unknown keys, no silent conversions ("1e-3" is not a number, true is not 1), finite
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
LONGEST = 60  # characters of a wrong value that a message repeats
Model = TypeVar("Model", bound=BaseModel)


def first_mistake(error: ValidationError) -> str:
    """`key.inner: what is wrong` of the first mistake, in a file that we wrote ourselves."""
    first = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))


def read_json(path: Path, model: type[Model], error: type[ValueError]) -> Model | None:
    """A JSON file that we wrote ourselves; None if there is none.

    Raises:
        error: one line naming the file, if it is damaged or of another form.
    """
    try:
        return model.model_validate_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise error(f"{path}: {getattr(e, 'strerror', None) or 'not a text file'}") from None
    except ValidationError as e:
        raise error(f"{path}: {first_mistake(e)}") from None


def one_line(error: ValidationError, model: type[BaseModel]) -> str:
    """`key.inner: what is wrong, got value` of one mistake.

    An unknown key comes before a missing one: a misspelt key is both, and the misspelling is what
    helps.

    Args:
        error: what validation by `model` raised.
        model: whose keys are proposed in the place of an unknown one.
    """
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        fields = _fields(model, first["loc"][:-1])
        near = closest(str(first["loc"][-1]), fields)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(fields) or 'none'}"
        message = f"unknown key; {hint}"
    elif first["type"] not in ("missing", "value_error", "json_invalid"):
        message += f", got {_short(first['input'])}"
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), message)))


def _fields(model: type[BaseModel], place: tuple[Any, ...]) -> list[str]:
    """The keys allowed in an inner table of `model`."""
    for key in place:
        inner = model.model_fields[key].annotation if key in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
