"""Add Open MPI, mpi4py, BlueFog and Horovod to the virtual environment: `make cluster-env`.

Wheels first, then BlueFog and Horovod, each compiled from its own unchanged source at the same
time. What stops them from compiling against today's torch is cured from outside: sitecustomize.py
(torch's build helpers), include/ (a header that is gone), cxx (the language standard).

Environment: CXX, the C++ compiler (g++); EXPOGRAPH_CUDA, 0 or 1 (1 where a CUDA toolkit with
nvcc, a GPU and NCCL are found); CUDA_HOME, NCCL_HOME. Exit status 0, or 1 with the cause.
"""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REQUIREMENTS = ROOT / "requirements-cluster.txt"
COMPILED = ("bluefog", "horovod")
BIN = Path(sys.executable).parent
STAMP = Path(sys.prefix) / "cluster.json"  # what was built, against what: `expograph doctor`
LOGS = Path(sys.prefix) / "cluster-build"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


class Failed(Exception):
    """The environment cannot be built; the message is what the user needs."""


def pins() -> dict[str, str]:
    """{package: requirement} of the requirements file."""
    lines = (line.split("#")[0].strip() for line in REQUIREMENTS.read_text().splitlines())
    return {line.split("==")[0]: line for line in lines if line}


def wanted(cuda: bool) -> dict:
    """What the stamp says when nothing is left to do."""
    versions = {name: pin.split("==")[1] for name, pin in pins().items()}
    return {
        "torch": importlib.metadata.version("torch"),
        "cuda": cuda,
        **{name: versions[name] for name in (*COMPILED, "openmpi", "mpi4py")},
    }


def installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def up_to_date(target: dict) -> bool:
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    same = all(stamp.get(key) == value for key, value in target.items())
    return same and all(installed(name) == target[name] for name in target if name != "cuda")


def check_tools() -> None:
    """Compiler, make and Python's headers, before anything is downloaded."""
    compiler = os.environ.get("CXX", "g++")
    if not shutil.which(compiler.split()[0]):
        raise Failed(f"no C++ compiler: {compiler} is not there; install g++ (or set CXX)")
    if not shutil.which("make"):
        raise Failed("no make, which Horovod's build needs; install make")
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        raise Failed("no Python.h; install Python's headers (python3.11-dev or -devel)")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cc")
        source.write_text("#include <concepts>\nint main() { return 0; }\n")
        command = [*compiler.split(), "-std=c++20", str(source), "-o", f"{folder}/probe"]
        if subprocess.run(command, capture_output=True).returncode:
            raise Failed(f"{compiler} cannot compile C++20, which torch's headers need (g++ >= 11)")


def find_cuda() -> dict[str, str] | None:
    """Variables of a build with CUDA and NCCL, or None where the machine has not all it takes.

    Raises:
        Failed: EXPOGRAPH_CUDA=1 asks for one, and something is missing.
    """
    choice = os.environ.get("EXPOGRAPH_CUDA", "auto")
    if choice not in ("auto", "0", "1"):
        raise Failed(f"EXPOGRAPH_CUDA={choice}: allowed are 0, 1 and auto")
    if choice == "0":
        return None
    import torch

    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    nccl = Path(os.environ.get("NCCL_HOME", Path(sysconfig.get_path("purelib"), "nvidia", "nccl")))
    lacking = [
        what
        for what, there in {
            "nvcc in PATH": shutil.which("nvcc"),
            f"{home}/include/cuda_runtime.h": (home / "include/cuda_runtime.h").is_file(),
            f"{home}/lib64/libcudart.so": (home / "lib64/libcudart.so").exists(),
            f"{nccl}/include/nccl.h": (nccl / "include/nccl.h").is_file(),
            "a GPU that torch sees": torch.cuda.is_available(),
        }.items()
        if not there
    ]
    if lacking and choice == "1":
        raise Failed(f"EXPOGRAPH_CUDA=1, but not found: {', '.join(lacking)}")
    if lacking:
        return None
    return {
        "BLUEFOG_WITH_NCCL": "1",
        "BLUEFOG_CUDA_HOME": str(home),
        "BLUEFOG_NCCL_HOME": str(nccl),
        "BLUEFOG_NCCL_LINK": "SHARED",  # torch brings the same library, loaded once
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_CUDA_HOME": str(home),
        "HOROVOD_NCCL_HOME": str(nccl),
        "HOROVOD_NCCL_LINK": "SHARED",
    }


def build_environment(cuda: dict[str, str] | None) -> dict[str, str]:
    includes = [HERE / "include"] + ([HERE / "cuda_include"] if cuda else [])
    # the path reaches a shell inside a shell: BlueFog splits what this prints like a shell would
    flags = " ".join(f"-I'{path}'" for path in includes)
    show = tempfile.NamedTemporaryFile("w", dir=LOGS, prefix="mpicxx-", delete=False)
    with show:
        show.write(f'#!/bin/sh\necho "$("{BIN}/mpicxx" -show) {flags}"\n')
    os.chmod(show.name, 0o755)
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(HERE),
        "EXPOGRAPH_BUILD_CUDA": "1" if cuda else "0",
        "EXPOGRAPH_CXX": os.environ.get("CXX", "g++"),
        "CXX": str(HERE / "cxx"),
        "BLUEFOG_MPICXX_SHOW": f"'{show.name}'",
        "BLUEFOG_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_WITHOUT_GLOO": "1",
        "HOROVOD_CPU_OPERATIONS": "MPI",
        **(cuda or {}),
    }


def run(what: str, command: list[str]) -> None:
    print(f"{what} ...", flush=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{what} failed:\n{done.stderr.strip()[-2000:]}")


def compile_wheels(environment: dict[str, str], folder: Path) -> list[Path]:
    """The wheels of BlueFog and Horovod, compiled side by side."""
    builds, start = {}, time.monotonic()
    for name in COMPILED:
        log = open(LOGS / f"{name}.log", "w")
        # no cache: pip would hand out a wheel that was compiled against another torch
        command = [
            *PIP,
            "wheel",
            "--verbose",
            "--no-cache-dir",
            "--no-build-isolation",
            "--no-deps",
        ]
        command += ["--no-binary", name, "--wheel-dir", str(folder), pins()[name]]
        print(f"compiling {pins()[name]} (log: {os.path.relpath(log.name)}) ...", flush=True)
        builds[name] = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        pending, told = set(builds), start
        while pending:
            time.sleep(0.5)
            for name in [name for name in pending if builds[name].poll() is not None]:
                pending.discard(name)
                if builds[name].returncode:
                    tail = (LOGS / f"{name}.log").read_text(errors="replace")[-2500:]
                    raise Failed(f"{name} did not compile; the log ends:\n{tail}")
                print(f"compiled {pins()[name]} in {time.monotonic() - start:.0f} s", flush=True)
            if pending and time.monotonic() - told > 30:
                told = time.monotonic()
                waiting = " and ".join(sorted(pending))
                print(f"  {waiting}: {told - start:.0f} s so far", flush=True)
    finally:
        for build in builds.values():
            if build.poll() is None:
                build.terminate()
    return sorted(folder.glob("*.whl"))


def check_import() -> None:
    """Both libraries' compiled parts load beside this torch, in one process."""
    code = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI\n"
    code += "import torch, bluefog.torch, horovod.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"built, but they do not load: {done.stderr.strip().splitlines()[-1]}")


def main() -> int:
    start = time.monotonic()
    try:
        check_tools()
        cuda = find_cuda()
        target = wanted(cuda is not None)
        if up_to_date(target):
            print(f"cluster environment is there: {describe(target)}")
            return 0
        STAMP.unlink(missing_ok=True)
        LOGS.mkdir(exist_ok=True)
        wheels = [pin for name, pin in pins().items() if name not in COMPILED]
        run("installing Open MPI, mpi4py and the build tools", [*PIP, "install", *wheels])
        with tempfile.TemporaryDirectory() as folder:
            built = compile_wheels(build_environment(cuda), Path(folder))
            install = [*PIP, "install", "--no-deps", "--force-reinstall", *map(str, built)]
            run("installing what was compiled", install)
        check_import()
    except Failed as e:
        print(f"cluster-env: {e}", file=sys.stderr)
        return 1
    STAMP.write_text(json.dumps(target | {"seconds": round(time.monotonic() - start)}) + "\n")
    print(f"cluster environment ready in {time.monotonic() - start:.0f} s: {describe(target)}")
    return 0


def describe(target: dict) -> str:
    parts = [f"{name} {target[name]}" for name in ("openmpi", "mpi4py", *COMPILED)]
    return f"{', '.join(parts)}, built against torch {target['torch']}" + (
        " with CUDA and NCCL" if target["cuda"] else ""
    )


if __name__ == "__main__":
    sys.exit(main())
