"""Hostfiles: lines of `host slots=N`, read in one way whichever launcher the job is started by.

bfrun and mpirun read them differently (a bare host, blanks around "=", a host twice, Windows' line
ends), so what they get is a file written here.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from expograph.cluster.launch import JobError

NAME = re.compile(r"[A-Za-z0-9_\[][\w.:@\[\]-]*", re.ASCII)
SLOTS = re.compile(r"slots\s*=\s*(\S*)")
FORM = "expected `host slots=N`"
LARGEST = 2**20  # bytes


def read(path: Path) -> dict[str, int]:
    """Host -> how many ranks it takes, in the file's order.

    Empty lines and what follows a "#" are left out.

    Raises:
        JobError: in one line with the file and the number of the line.
    """
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST).decode("utf-8-sig")
    except OSError as e:
        raise JobError(f"--hostfile {path}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise JobError(f"{path}: not a text file; {FORM}") from None
    hosts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split(maxsplit=1)
        if not words:
            continue
        host, rest = words[0], " ".join(words[1:]).strip()
        where = f"{path}, line {number}"
        if not NAME.fullmatch(host):
            raise JobError(f"{where}: {host}: no name of a host; {FORM}")
        if host in hosts:
            raise JobError(f"{where}: {host} is listed already: give all its slots in one line")
        hosts[host] = _slots(where, rest)
    if not hosts:
        raise JobError(f"{path}: lists no host; {FORM} in a line of its own")
    return hosts


def _slots(where: str, rest: str) -> int:
    found = SLOTS.fullmatch(rest)
    if not found:
        raise JobError(f"{where}: {rest or 'no slots'}: {FORM}")
    if not re.fullmatch(r"[1-9]\d{0,5}", found[1], re.ASCII):
        raise JobError(f"{where}: slots={found[1]}: expected a whole number above 0")
    return int(found[1])


@contextmanager
def written(hosts: Mapping[str, int]) -> Iterator[Path]:
    """A file of these hosts that every launcher understands, inside the context."""
    with tempfile.TemporaryDirectory() as folder:  # ours alone, wherever TMPDIR is
        path = Path(folder, "hosts")
        path.write_text("".join(f"{host} slots={n}\n" for host, n in hosts.items()))
        yield path
