"""Execute the notebooks of this folder and save them with their outputs.

python notebooks/execute.py             # all of them
python notebooks/execute.py curves      # one
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a clean kernel, run in its folder; without times."""
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=120, record_timing=False, resources=where).execute()
    notebook.metadata = METADATA  # else the versions of this machine
    return notebook


if __name__ == "__main__":
    for path in [HERE / f"{n}.ipynb" for n in sys.argv[1:]] or sorted(HERE.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
