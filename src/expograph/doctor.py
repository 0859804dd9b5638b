"""What this machine has for each engine, what it lacks, and the cure: `expograph doctor`.

Anything here may be broken, so nothing is imported that could be: libraries are tried in a
process of their own, with a time limit.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from expograph import data, testbed

State = Literal["ok", "note", "missing", "broken"]
TIMEOUT = 40  # seconds a tried command may take; importing torch from a cold disk is slow
CLUSTER = "make cluster-env"
NEEDS = {  # engine: the findings that must not be missing or broken
    "embedded": ("Python", "torch"),
    "bluefog": ("Python", "torch", "Open MPI", "mpi4py", "BlueFog"),
    "horovod": ("Python", "torch", "Open MPI", "mpi4py", "Horovod"),
    "mpi": ("Python", "torch", "Open MPI", "mpi4py"),
    "testbed": ("Python", "torch", "Open MPI", "mpi4py", "testbed"),
}


class Finding(NamedTuple):
    """One line of the screen.

    Attributes:
        what: short name, a key of `NEEDS` where an engine depends on it.
        state: "note" is worth knowing and no obstacle.
        found: what is there.
        cure: what to do about it; empty if nothing.
    """

    what: str
    state: State
    found: str
    cure: str = ""


def run(command: list[str], timeout: float = TIMEOUT) -> tuple[int, str]:
    """(exit status, output and errors together); 127 if it is not there, 124 if it hangs."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {timeout:.0f} s"
    except OSError as e:
        return 127, e.strerror or str(e)
    return done.returncode, done.stdout.decode(errors="replace")


def examine(ranks: int | None = None) -> list[Finding]:
    """All findings, in the order of the screen.

    Args:
        ranks: how many ranks this machine is to carry; its cores by default.
    """
    cores = len(os.sched_getaffinity(0))
    ranks = ranks or cores
    libraries = _libraries()
    return [
        _python(),
        _torch(libraries),
        _data(),
        _compiler(),
        _open_mpi(),
        _mpi4py(libraries),
        *(_compiled(name, libraries) for name in ("BlueFog", "Horovod")),
        _slots(ranks, cores),
        _root(),
        _threads(ranks, cores),
        _gpus(libraries, ranks),
        _testbed(),
    ]


def verdicts(findings: Iterable[Finding]) -> dict[str, str]:
    """Each engine: "ready", or what it lacks."""
    bad = {f.what for f in findings if f.state in ("missing", "broken")}
    lacking = {engine: [what for what in needs if what in bad] for engine, needs in NEEDS.items()}
    return {engine: f"needs {', '.join(w)}" if w else "ready" for engine, w in lacking.items()}


# What the libraries say of themselves, each in a process of its own: a line of JSON.
PROBES = {
    "torch": "import torch, torchvision; told = {'torch': torch.__version__, "
    "'torchvision': torchvision.__version__, 'gpus': torch.cuda.device_count(), "
    "'cuda': torch.version.cuda}",
    "mpi4py": "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "told = {'version': mpi4py.__version__, 'library': MPI.Get_library_version()}",
    "BlueFog": "import bluefog.torch as bf; told = {'nccl': bf.nccl_built()}",
    "Horovod": "import horovod.torch as hvd; told = {'nccl': bool(hvd.nccl_built())}",
}


def _libraries() -> dict[str, dict]:
    """What each probe told, or {"error": its last line}; all probes run at once."""
    tail = "; import json; print(); print(json.dumps(told))"
    started = {
        name: subprocess.Popen(
            [sys.executable, "-c", code + tail],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        for name, code in PROBES.items()
    }
    told = {}
    for name, process in started.items():
        try:
            output = process.communicate(timeout=TIMEOUT)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            told[name] = {"error": f"its import does not end within {TIMEOUT} s"}
            continue
        lines = output.strip().splitlines() or [f"exit status {process.returncode}"]
        try:
            told[name] = json.loads(lines[-1]) if process.returncode == 0 else {"error": lines[-1]}
        except ValueError:
            told[name] = {"error": lines[-1]}
    return told


def _python() -> Finding:
    where = "a virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", "ok", f"{version}, {where}")


def _torch(libraries: dict) -> Finding:
    told = libraries["torch"]
    if "error" in told:
        return Finding("torch", "broken", told["error"], "make install")
    return Finding("torch", "ok", f"{told['torch']}, torchvision {told['torchvision']}")


def _data() -> Finding:
    kept = Path(os.environ.get("EXPOGRAPH_DATA") or "data") / "fashion_mnist"
    for folder in (kept, data.DEBIAN_FOLDER):
        if all((folder / file).is_file() for file in data.FASHION_MNIST_SHA256):
            return Finding("data", "ok", f"Fashion-MNIST in {folder}")
    return Finding("data", "note", "Fashion-MNIST is not here yet", "make data")


def _compiler() -> Finding:
    compiler = os.environ.get("CXX", "g++")
    status, output = run([*compiler.split(), "--version"], 10)
    if status:
        return Finding("compiler", "missing", f"{compiler}: {output}", "install g++ (11 or later)")
    version = output.splitlines()[0]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cc")
        source.write_text("#include <concepts>\nint main() {}\n")
        words = ["-std=c++20", "-fsyntax-only", str(source)]
        if run([*compiler.split(), *words], 20)[0]:
            return Finding("compiler", "broken", f"{version}: no C++20", "g++ 11 or later; CXX=...")
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        return Finding("compiler", "missing", f"{version}; no Python.h", "install python3.11-dev")
    if not shutil.which("make"):
        return Finding("compiler", "missing", f"{version}; no make", "install make")
    return Finding("compiler", "ok", f"{version}, C++20, Python.h")


def _open_mpi() -> Finding:
    """The mpirun that `make` and a shell with .venv activated would start."""
    folder = str(Path(sys.executable).parent)
    found = shutil.which("mpirun", path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if not found:
        return Finding("Open MPI", "missing", "no mpirun", CLUSTER)
    status, output = run([found, "--version"], 15)
    version = re.search(r"Open MPI\) (\d+)\.(\d+\S*)", output)
    if status or not version:
        first = (output.strip().splitlines() or ["nothing"])[0]
        return Finding(
            "Open MPI", "broken", f"{found} says: {first}; bfrun needs Open MPI", CLUSTER
        )
    name = f"{version[1]}.{version[2]}"
    if int(version[1]) >= 5:
        cure = f"mpirun instead of bfrun, whose options it misreads; or {CLUSTER}"
        return Finding("Open MPI", "note", f"{name} ({found})", cure)
    first = shutil.which("mpirun")
    if first and Path(first).parent != Path(found).parent:
        cure = "source .venv/bin/activate before bfrun"
        return Finding("Open MPI", "note", f"{name}; PATH has {first} first", cure)
    return Finding("Open MPI", "ok", name)


def _mpi4py(libraries: dict) -> Finding:
    told = libraries["mpi4py"]
    if "error" in told:
        return Finding("mpi4py", _absent("mpi4py"), told["error"], CLUSTER)
    library = re.match(r"Open MPI v(\S+?),", told["library"])
    name = f"Open MPI {library[1]}" if library else told["library"].split(",")[0]
    return Finding("mpi4py", "ok", f"{told['version']} on {name}")


def _compiled(name: str, libraries: dict) -> Finding:
    """BlueFog or Horovod, and whether the torch it was compiled against is the one installed."""
    told, package = libraries[name], name.lower()
    if "error" in told:
        return Finding(name, _absent(package), told["error"], CLUSTER)
    version = importlib.metadata.version(package)
    nccl = "with NCCL" if told["nccl"] else "no CUDA"
    try:
        built = json.loads((Path(sys.prefix) / "cluster.json").read_text())["torch"]
    except (OSError, ValueError, KeyError, TypeError):
        return Finding(name, "note", f"{version}, {nccl}; built by hand, torch unknown")
    now = libraries["torch"].get("torch", "").split("+")[0]
    if built.split("+")[0] != now:
        found = f"{version}, built against torch {built}, installed is {now}"
        return Finding(name, "broken", found, CLUSTER)
    return Finding(name, "ok", f"{version}, {nccl}, built against torch {built}")


def _absent(package: str) -> State:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
    return "broken"


def _slots(ranks: int, cores: int) -> Finding:
    if ranks <= cores:
        return Finding("slots", "ok", f"{ranks} ranks on {cores} cores")
    cure = "mpirun --oversubscribe; bfrun needs nothing; waiting ranks give way by themselves"
    return Finding("slots", "note", f"{ranks} ranks on {cores} cores", cure)


def _root() -> Finding:
    if os.geteuid() == 0:
        cure = "mpirun --allow-run-as-root; bfrun passes it"
        return Finding("root", "note", "you are root", cure)
    return Finding("root", "ok", "an ordinary user")


def _threads(ranks: int, cores: int) -> Finding:
    fitting = max(1, cores // ranks)
    text = os.environ.get("OMP_NUM_THREADS", "")
    if text.isdigit() and int(text) > fitting:
        cure = f"OMP_NUM_THREADS={fitting}, or leave it unset"
        return Finding("threads", "note", f"OMP_NUM_THREADS={text} for {ranks} ranks", cure)
    return Finding("threads", "ok", f"{text or fitting} a rank")


def _gpus(libraries: dict, ranks: int) -> Finding:
    gpus = libraries["torch"].get("gpus", 0)
    if not gpus:
        return Finding("GPUs", "ok", "none: device=cpu")
    direct = bool(libraries["BlueFog"].get("nccl"))
    folder = str(Path(sys.executable).parent)
    info = shutil.which("ompi_info", path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    output = run([info, "--parsable", "--all"], 15)[1] if info else ""
    aware = "mpi_built_with_cuda_support:value:true" in output
    found = (
        f"{gpus} for {ranks} ranks; Open MPI {'reads' if aware else 'does not read'} their memory"
    )
    if ranks > gpus:
        cure = "NCCL refuses two ranks a GPU: messages go by the host's memory"
        return Finding("GPUs", "note", found, cure)
    if not direct:
        cure = "messages go by the host's memory; EXPOGRAPH_CUDA=1 make cluster-env for NCCL"
        return Finding("GPUs", "note", found, cure)
    return Finding("GPUs", "ok", f"{found}; BlueFog uses NCCL")


def _testbed() -> Finding:
    lacks = testbed.missing()
    if lacks:
        return Finding("testbed", "missing", f"lacks {', '.join(lacks)}", "see what it lacks")
    return Finding("testbed", "ok", "root, iproute2, util-linux")
