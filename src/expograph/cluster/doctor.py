"""What this machine has for each engine, what it lacks, and the cure: `expograph doctor`.

Anything here may be broken, so nothing is imported that could be: libraries are tried in a
process of their own, with a time limit, and a check that raises is a finding like any other.
"""

import importlib.metadata
import json
import os
import re
import shutil
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

from expograph.cluster import command

State = Literal["ok", "note", "missing", "broken"]
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
COMMON = ("Python", "torch", "data")
NEEDS = {  # engine: the findings that must not be missing or broken
    "embedded": COMMON,
    "bluefog": (*COMMON, "Open MPI", "mpi4py", "BlueFog"),
    "horovod": (*COMMON, "Open MPI", "mpi4py", "Horovod"),
    "mpi": (*COMMON, "Open MPI", "mpi4py"),
    "torch": COMMON,
    "testbed": (*COMMON, "Open MPI", "mpi4py", "testbed"),
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


def examine(ranks: int | None = None) -> list[Finding]:
    """All findings, in the order of the screen.

    Args:
        ranks: how many ranks this machine is to carry; its cores by default.
    """
    cpus = os.sched_getaffinity(0)
    ranks = ranks or len(cpus)
    with ThreadPoolExecutor(len(PROBES) + 2) as pool:
        compiler = pool.submit(_tried, "compiler", _compiler)
        mpirun = pool.submit(_mpirun)
        tried = {name: pool.submit(_probe, name) for name in PROBES}
        libraries = {name: future.result() for name, future in tried.items()}
    return [
        _tried("Python", _python),
        _tried("torch", _torch, libraries),
        _tried("data", _data),
        compiler.result(),
        _tried("Open MPI", _open_mpi, mpirun.result()),
        _tried("mpi4py", _mpi4py, libraries, mpirun.result()),
        *(_tried(name, _compiled, name, libraries) for name in ("BlueFog", "Horovod")),
        _tried("slots", _slots, ranks, cpus),
        _tried("root", _root),
        _tried("threads", _threads, ranks, len(cpus)),
        _tried("GPUs", _gpus, libraries, ranks),
        _tried("testbed", _testbed),
    ]


def verdicts(findings: Iterable[Finding]) -> dict[str, str]:
    """Each engine: "ready", or what it lacks."""
    bad = {f.what for f in findings if f.state in ("missing", "broken")}
    lacking = {engine: [what for what in needs if what in bad] for engine, needs in NEEDS.items()}
    return {engine: f"needs {', '.join(w)}" if w else "ready" for engine, w in lacking.items()}


def _tried(what: str, check: Callable[..., Finding], *arguments: Any) -> Finding:
    try:
        return check(*arguments)
    except Exception as e:  # whatever else is broken here, the other findings are told
        return Finding(what, "broken", _short(f"{type(e).__name__}: {e}"), _reinstall())


# ---- libraries -------------------------------------------------------------------------------

# What the libraries say of themselves, each in a process of its own: a line of JSON.
PROBES = {
    "torch": "import torch, torchvision; told = {'torch': torch.__version__, "
    "'torchvision': torchvision.__version__, 'gpus': torch.cuda.device_count()}",
    "mpi4py": "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "told = {'version': mpi4py.__version__, 'library': MPI.Get_library_version()}",
    "BlueFog": "import bluefog.torch as bf; told = {'nccl': bf.nccl_built()}",
    "Horovod": "import horovod.torch as hvd; told = {'nccl': bool(hvd.nccl_built())}",
}


def _probe(name: str) -> dict[str, Any]:
    """What a library told, or {"error": why not}."""
    code = PROBES[name] + "; import json; print('\\n<told>' + json.dumps(told))"
    status, output, errors = command.run([sys.executable, "-c", code])
    told = re.search(r"^<told>(.*)$", output, re.MULTILINE)  # libraries print as well
    if status == 0 and told:
        answer: dict[str, Any] = json.loads(told[1])
        return answer
    lines = errors.strip().splitlines() or [f"exit status {status}"]
    error = f"died: {signal.strsignal(-status)}" if status < 0 else lines[-1]
    return {"error": _short(error)}


def _short(text: str) -> str:
    """One line that fits the screen: without folders, which are the longest part of errors."""
    return " ".join(re.sub(r"/\S*/", "", text).split())[:160]


def _unloadable(what: str, package: str, told: dict[str, Any], cure: str) -> Finding:
    return Finding(what, "broken" if _version(package) else "missing", told["error"], cure)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _reinstall() -> str:
    return f"{sys.executable} -m pip install --force-reinstall -r requirements.txt"


def _stamp() -> Path:
    return Path(sys.prefix, "cluster.json")  # written by scripts/cluster_env/install.py


def _cluster(setting: str = "") -> str:
    """The command that builds the cluster environment; make does nothing while a stamp says so."""
    return f"rm {_stamp()}; " * _stamp().exists() + setting + "make cluster-env"


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.prefix == sys.base_prefix:
        cure = "make install, then source .venv/bin/activate"
        return Finding("Python", "note", f"{version}, no virtual environment", cure)
    return Finding("Python", "ok", f"{version}, a virtual environment")


def _torch(libraries: dict[str, Any]) -> Finding:
    told = libraries["torch"]
    if "error" in told:
        # without -B, make sees that it once installed it
        cure = _reinstall() if _version("torch") else "make -B install"
        return _unloadable("torch", "torch", told, cure)
    return Finding("torch", "ok", f"{told['torch']}, torchvision {told['torchvision']}")


def _mpi4py(libraries: dict[str, Any], mpirun: tuple[str, str]) -> Finding:
    told = libraries["mpi4py"]
    if "error" in told:
        return _unloadable("mpi4py", "mpi4py", told, _cluster())
    library, launcher = _mpi_name(told["library"]), _mpi_name(mpirun[1])
    found = f"{told['version']} on {library}"
    if mpirun[0] and library.split(".")[:2] != launcher.split(".")[:2]:
        found += f", but mpirun is {launcher}: ranks would not find each other"
        return Finding("mpi4py", "broken", found, _cluster())
    return Finding("mpi4py", "ok", found)


def _compiled(name: str, libraries: dict[str, Any]) -> Finding:
    """BlueFog or Horovod, and whether the torch it was compiled against is the one installed."""
    told, torch, package = libraries[name], libraries["torch"], name.lower()
    if "error" in told:
        cure = _cluster() if "error" not in torch or not _version(package) else "torch first"
        return _unloadable(name, package, told, cure)
    version = _version(package) or "version unknown"
    nccl = "with NCCL" if told["nccl"] else "no CUDA"
    try:
        built = str(json.loads(_stamp().read_text())["torch"])
    except (OSError, ValueError, KeyError, TypeError):
        found = f"{version}, {nccl}; no stamp tells which torch it was built against"
        return Finding(name, "note", found, f"if it misbehaves: {_cluster()}")
    now = torch.get("torch") or _version("torch") or "none"
    if built.split("+")[0] != now.split("+")[0]:
        found = f"{version}, built against torch {built}, installed is {now}"
        return Finding(name, "broken", found, _cluster())
    return Finding(name, "ok", f"{version}, {nccl}, built against torch {built}")


# ---- the machine -----------------------------------------------------------------------------


def _data() -> Finding:
    from expograph.data import fashion_mnist  # imports numpy, which may be broken

    kept = Path(os.environ.get("EXPOGRAPH_DATA") or "data") / "fashion_mnist"
    for folder in (kept, fashion_mnist.DEBIAN_FOLDER):
        if all((folder / file).is_file() for file in fashion_mnist.SHA256):
            return Finding("data", "ok", f"Fashion-MNIST in {folder}")
    return Finding("data", "note", "Fashion-MNIST is not here yet", "make data")


def _compiler() -> Finding:
    compiler = (os.environ.get("CXX") or "g++").split()
    cure = "install g++ 11 or later, or set CXX"
    status, output, errors = command.run([*compiler, "--version"])
    if status:
        state: State = "missing" if status == 127 else "broken"
        found = f"{compiler[0]}: {_short(errors) or f'exit status {status}'}"
        return Finding("compiler", state, found, cure)
    version = (output.splitlines() or [compiler[0]])[0]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cc")
        source.write_text("#include <concepts>\nint main() {}\n")
        status, _, errors = command.run([*compiler, "-std=c++20", "-fsyntax-only", str(source)])
    if status:
        return Finding("compiler", "broken", f"{version}: no C++20 ({_short(errors)})", cure)
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        cure = "install python{}.{}-dev (or -devel)".format(*sys.version_info)
        return Finding("compiler", "missing", f"{version}; no Python.h", cure)
    if not shutil.which("make"):
        return Finding("compiler", "missing", f"{version}; no make", "install make")
    return Finding("compiler", "ok", f"{version}, C++20, make, Python.h")


def _which(command: str) -> str | None:
    """As `make` and a shell with .venv activated would find it."""
    folders = Path(sys.executable).parent, os.environ.get("PATH", "")
    return shutil.which(command, path=os.pathsep.join(map(str, folders)))


def _mpirun() -> tuple[str, str]:
    """(path, what it says of itself), both empty where there is none."""
    found = _which("mpirun")
    return (found, "".join(command.run([found, "--version"])[1:]).strip()) if found else ("", "")


def _mpi_name(text: str) -> str:
    """ "Open MPI 4.1.8" of what an mpirun or an MPI library says of itself."""
    match = re.search(r"(Open MPI|MPICH|HYDRA|Intel\(R\) MPI)\D*([\w.]+)", text)
    return f"{match[1].replace('HYDRA', 'MPICH')} {match[2]}" if match else _short(text)


def _open_mpi(mpirun: tuple[str, str]) -> Finding:
    found, name = mpirun[0], _mpi_name(mpirun[1])
    if not found:
        return Finding("Open MPI", "missing", "no mpirun", _cluster())
    version = re.fullmatch(r"Open MPI ((\d+).*)", name)
    if not version:
        told = f"{found} says: {name or 'nothing'}; bfrun needs Open MPI"
        return Finding("Open MPI", "broken", told, _cluster())
    if int(version[2]) >= 5:
        cure = f"mpirun instead of bfrun, which misreads its options; or {_cluster()}"
        return Finding("Open MPI", "note", f"{version[1]} ({found})", cure)
    folder, first = Path(found).parent, shutil.which("mpirun")
    if first and Path(first).parent != folder:
        cure = f"source {folder}/activate, before mpirun or bfrun"
        return Finding("Open MPI", "note", f"{version[1]}, but PATH has {first} first", cure)
    return Finding("Open MPI", "ok", f"{version[1]} in {folder}")


def _slots(ranks: int, cpus: set[int]) -> Finding:
    """Open MPI counts a slot for each core, whatever the number of its hardware threads."""
    try:
        slots = len({Path(SIBLINGS.format(cpu)).read_text() for cpu in cpus})
    except OSError:
        slots = len(cpus)
    found = f"{ranks} ranks, {slots} fit ({len(cpus)} hardware threads)"
    if ranks <= slots:
        return Finding("slots", "ok", found)
    cure = "mpirun --oversubscribe (bfrun needs nothing)"
    if ranks > len(cpus):  # job.py sets it unless the user did
        cure += "; OMPI_MCA_mpi_yield_when_idle=1"
        cure += " (our engines set it)" * ("OMPI_MCA_mpi_yield_when_idle" not in os.environ)
    return Finding("slots", "note", found, cure)


def _root() -> Finding:
    if os.geteuid() == 0:
        cure = "mpirun --allow-run-as-root (bfrun passes it)"
        return Finding("root", "note", "you are root", cure)
    return Finding("root", "ok", "an ordinary user")


def _threads(ranks: int, cores: int) -> Finding:
    fitting = max(1, cores // ranks)
    text = os.environ.get("OMP_NUM_THREADS", "") or "0"  # 0: we choose
    policy = os.environ.get("OMP_WAIT_POLICY", "unset")
    if not text.isdigit() or int(text) > fitting:
        cure = f"OMP_NUM_THREADS={fitting}, or leave it unset"
        return Finding("threads", "note", f"OMP_NUM_THREADS={text} for {ranks} ranks", cure)
    threads = int(text) or fitting
    if threads > 1 and policy.upper() != "PASSIVE":
        cure = "OMP_WAIT_POLICY=PASSIVE, or waiting threads take cores (make sets it)"
        found = f"{threads} a rank, OMP_WAIT_POLICY {policy}"
        return Finding("threads", "note", found, cure)
    return Finding("threads", "ok", f"{threads} a rank, OMP_WAIT_POLICY {policy}")


def _gpus(libraries: dict[str, Any], ranks: int) -> Finding:
    if "error" in libraries["torch"]:
        return Finding("GPUs", "note", "not known: torch does not load", "torch first")
    gpus = libraries["torch"]["gpus"]
    if not gpus:
        return Finding("GPUs", "ok", "none: device=cpu")
    info = _which("ompi_info")
    output = command.run([info, "--parsable", "--all"])[1] if info else ""
    aware = "mpi_built_with_cuda_support:value:true" in output
    reads = "reads" if aware else "does not read"
    found = f"{gpus} for {ranks} ranks; Open MPI {reads} their memory"
    if ranks > gpus:
        cure = f"up to {gpus} ranks here for NCCL; else messages go by the host's memory"
        return Finding("GPUs", "note", found, cure)
    if not libraries["BlueFog"].get("nccl"):
        cure = f"{_cluster('EXPOGRAPH_CUDA=1 ')}; else messages go by the host's memory"
        return Finding("GPUs", "note", found, cure)
    return Finding("GPUs", "ok", f"{found}; BlueFog uses NCCL")


def _testbed() -> Finding:
    from expograph.cluster import testbed

    lacks = testbed.missing()  # "tc (install iproute2)"
    if lacks:
        found = f"lacks {', '.join(lack.split(' (')[0] for lack in lacks)}"
        cures = dict.fromkeys(re.findall(r"\((.+?)\)", " ".join(lacks)))
        return Finding("testbed", "missing", found, "; ".join(cures) or "another machine")
    return Finding("testbed", "ok", "root, iproute2, util-linux")
