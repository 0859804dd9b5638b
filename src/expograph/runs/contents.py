"""The files of a folder of the results: written so that damage is noticed when they are read.

results/<name>/provenance.json      "files": {name: SHA-256} of the others, and written last
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from expograph.files import DamagedFile, replace_bytes

PROVENANCE = "provenance.json"


def checksums(files: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of each file, 64 hex digits."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, each whole or not at all, its provenance last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in sorted(files.items(), key=lambda file: file[0] == PROVENANCE):
        replace_bytes(folder / name, content)


def check(path: Path, content: bytes) -> None:
    """That a file is as it was written, where the provenance beside it tells.

    Raises:
        DamagedFile: in one line with the file's name.
    """
    expected = recorded(path.parent).get(path.name)
    if expected not in (None, hashlib.sha256(content).hexdigest()):
        raise DamagedFile(f"{path}: not as it was written (its checksum differs): make it anew")


def recorded(folder: Path) -> dict[str, str]:
    """The checksums that a folder's provenance has; none where it is older, or is not there."""
    try:
        files = json.loads((folder / PROVENANCE).read_bytes()).get("files", {})
        return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, AttributeError):  # damaged itself: whoever reads it says so
        return {}
