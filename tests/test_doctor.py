"""The doctor's findings on machines made up here, and one look at the real one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from expograph import cli
from expograph.cluster import command, doctor, testbed
from expograph.cluster.doctor import Finding, verdicts

ROOT = Path(__file__).parents[1]
TORCH = {"torch": "2.14.1+cpu", "torchvision": "0.29.1", "gpus": 0}
NO_TORCH = {"error": "ModuleNotFoundError: No module named 'torch'"}
OPEN_MPI = "Open MPI v4.1.8, package: Open MPI user@host Distribution, ident: 4.1.8"
MPICH = "MPICH Version:      4.2.0\nMPICH Release date: Fri Feb  9\nMPICH ABI:  16:0:4"
SECTIONS = ["Python", "torch", "data", "compiler", "Open MPI", "mpi4py", "BlueFog", "Horovod"]
SECTIONS += ["slots", "root", "threads", "GPUs", "testbed"]


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose only commands are those the test writes into its folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(doctor.sys, "prefix", str(tmp_path))
    for name in ("CXX", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OMPI_MCA_mpi_yield_when_idle"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(command, "PATIENCE", 0.5)


@pytest.fixture
def installed(monkeypatch):
    """{package: version}, what pip has installed as far as the doctor can see."""
    packages = {"bluefog": "0.3.0", "mpi4py": "4.1.2", "torch": "2.14.1"}
    monkeypatch.setattr(doctor, "_version", packages.get)
    return packages


# ---- commands --------------------------------------------------------------------------------


def test_a_hanging_command_is_ended_with_what_it_started(machine, impatient):
    script(machine, "mpirun", f"/bin/sleep 100 & echo $! > {machine}/child; wait")
    start = time.monotonic()
    found = doctor._open_mpi(doctor._mpirun())
    assert found.state == "broken" and "hangs" in found.found
    assert time.monotonic() - start < 10
    child = Path("/proc", (machine / "child").read_text().strip(), "stat")
    for _ in range(50):
        if not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the script's child is still there")


def test_a_slow_command_is_no_hanging_one_up_to_a_limit(impatient, monkeypatch):
    busy = "import time\nwhile time.process_time() < {}: pass\nprint('done')"
    assert command.run([sys.executable, "-c", busy.format(1.2)])[:2] == (0, "done\n")
    monkeypatch.setattr(command, "LIMIT", 1.0)
    start = time.monotonic()
    assert command.run([sys.executable, "-c", busy.format(100)])[0] == 124
    assert time.monotonic() - start < 10


# ---- Open MPI --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "state", "found", "cure"),
    [
        ("echo 'mpirun (Open MPI) 4.1.8'", "ok", "4.1.8", ""),
        ("echo 'mpirun (Open MPI) 5.0.11'", "note", "5.0.11", "mpirun instead of bfrun"),
        ("printf 'HYDRA build details:\\n  Version:  4.2.0\\n'", "broken", "MPICH 4.2.0", "make"),
        ("echo 'Intel(R) MPI Library for Linux* OS, Version 2021.9'", "broken", "2021.9", "make"),
        ("exit 0", "broken", "nothing", "make cluster-env"),
        ("echo 'libopen-rte.so.40: not found' >&2; exit 127", "broken", "not found", "make"),
        (None, "missing", "no mpirun", "make cluster-env"),
    ],
)
def test_open_mpi(machine, says, state, found, cure):
    if says:
        script(machine, "mpirun", says)
    told = doctor._open_mpi(doctor._mpirun())
    assert told.state == state and found in told.found and cure in told.cure
    assert bool(told.cure) == (state != "ok")


def test_another_mpirun_first_in_the_path(machine, monkeypatch):
    other = machine / "other"
    other.mkdir()
    script(other, "mpirun", "echo 'mpirun (Open MPI) 4.0.3'")
    script(machine, "mpirun", "echo 'mpirun (Open MPI) 4.1.8'")
    monkeypatch.setenv("PATH", str(other))
    found = doctor._open_mpi(doctor._mpirun())
    assert found.state == "note" and str(other) in found.found and "activate" in found.cure


@pytest.mark.parametrize(
    ("library", "mpirun", "state"),
    [
        (OPEN_MPI, "mpirun (Open MPI) 4.1.8", "ok"),
        (OPEN_MPI, "mpirun (Open MPI) 4.1.4", "ok"),  # one series, one protocol
        (OPEN_MPI, "mpirun (Open MPI) 5.0.11", "broken"),
        (OPEN_MPI, "HYDRA build details:\n    Version:      4.1.2", "broken"),
        (MPICH, "HYDRA build details:\n    Version:      4.2.0", "ok"),
        (MPICH, "mpirun (Open MPI) 4.2.0", "broken"),
        (OPEN_MPI, "", "ok"),  # no mpirun is a finding of its own
    ],
)
def test_a_launcher_of_another_mpi_than_the_library(machine, installed, library, mpirun, state):
    libraries = {"mpi4py": {"version": "4.1.2", "library": library}}
    found = doctor._mpi4py(libraries, ("/usr/bin/mpirun" if mpirun else "", mpirun))
    assert found.state == state and "\n" not in found.found
    assert ("but mpirun is" in found.found) == bool(found.cure) == (state == "broken")


# ---- compiler --------------------------------------------------------------------------------

GOOD = "echo 'g++ 12.2'"
OLD = "case $* in *c++20*) echo 'unrecognized option' >&2; exit 1 ;; esac; echo 'g++ 9.4'"


@pytest.mark.parametrize(
    ("compiler", "make", "header", "state", "cure"),
    [
        (GOOD, True, True, "ok", ""),
        ("exit 0", True, True, "ok", ""),  # says nothing, compiles
        (None, True, True, "missing", "g++"),
        (OLD, True, True, "broken", "g++ 11"),
        ("exit 1", True, True, "broken", "g++"),
        (GOOD, False, True, "missing", "install make"),
        (GOOD, True, False, "missing", "python3"),
    ],
)
def test_compiler(machine, monkeypatch, compiler, make, header, state, cure):
    monkeypatch.setattr(doctor.sysconfig, "get_paths", lambda: {"include": str(machine)})
    if compiler:
        script(machine, "g++", compiler)
    if make:
        script(machine, "make", "")
    if header:
        (machine / "Python.h").touch()
    found = doctor._compiler()
    assert found.state == state and cure in found.cure and bool(found.cure) == (state != "ok")


# ---- libraries -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("nccl_built = lambda: False", {"nccl": False}),
        ("import atexit; nccl_built = lambda: 1\natexit.register(print, 'bye')", {"nccl": 1}),
        (
            "raise ImportError('/a/b/mpi_lib.so: undefined symbol: _ZN3c10')",
            {"error": "ImportError: mpi_lib.so: undefined symbol: _ZN3c10"},
        ),
        ("import os; os.abort()", {"error": "died: Aborted"}),
        ("import sys; sys.exit(3)", {"error": "exit status 3"}),
        ("import time; time.sleep(100)", {"error": "hangs: no answer after 1 s"}),
    ],
)
def test_what_becomes_of_an_import(tmp_path, monkeypatch, module, told):
    (tmp_path / "bluefog").mkdir()
    (tmp_path / "bluefog" / "__init__.py").touch()
    (tmp_path / "bluefog" / "torch.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if "sleep" in module:
        monkeypatch.setattr(command, "PATIENCE", 1.0)
        found = doctor._probe("BlueFog")["error"]
        assert found.startswith("hangs: no answer after")
    else:
        assert doctor._probe("BlueFog") == told


@pytest.mark.parametrize(
    ("stamp", "told", "state", "said"),
    [
        ('{"torch": "2.14.1"}', {"nccl": False}, "ok", "no CUDA, built against torch 2.14.1"),
        ('{"torch": "2.14.1"}', {"nccl": True}, "ok", "with NCCL"),
        ('{"torch": "2.13.0"}', {"nccl": False}, "broken", "installed is 2.14.1"),
        ('{"torch": 2}', {"nccl": False}, "broken", "installed is 2.14.1"),
        ("not JSON", {"nccl": True}, "note", "which torch"),
        ("[1]", {"nccl": True}, "note", "which torch"),
        (None, {"nccl": True}, "note", "which torch"),
        (None, {"error": "undefined symbol: _ZN2at"}, "broken", "undefined symbol"),
    ],
)
def test_a_library_built_against_another_torch(machine, installed, stamp, told, state, said):
    if stamp:
        (machine / "cluster.json").write_text(stamp)
    found = doctor._compiled("BlueFog", {"BlueFog": told, "torch": TORCH})
    assert found.state == state and said in found.found
    assert ("make cluster-env" in found.cure) == (state != "ok")


def test_a_library_that_is_not_there(machine, installed):
    del installed["bluefog"]
    libraries = {"BlueFog": {"error": "No module named 'bluefog'"}, "torch": TORCH}
    found = doctor._compiled("BlueFog", libraries)
    assert (found.state, found.cure) == ("missing", "make cluster-env")


def test_without_torch_torch_comes_first(machine, installed):
    libraries = {"torch": NO_TORCH, "BlueFog": {"error": "No module named 'torch'"}}
    assert doctor._compiled("BlueFog", libraries).cure == "torch first"
    assert "--force-reinstall" in doctor._torch(libraries).cure  # pip believes it is there
    assert "not known" in doctor._gpus(libraries, 2).found
    del installed["torch"]
    found = doctor._torch(libraries)
    assert (found.state, found.cure) == ("missing", "make -B install")


def test_the_cures_are_commands_that_make_does_not_find_done(machine):
    """make takes a stamp for the deed: what is broken behind it would stay so."""
    for name in (".installed", "cluster.json"):
        (machine / name).write_text("{}")
    words = {"cwd": ROOT, "shell": True, "capture_output": True, "text": True}
    words["env"] = {"PATH": os.defpath}
    for cure, deed in ((doctor._cluster(), "install.py"), ("make -B install", "pip install")):
        dry = cure.replace("make", f"make -n PYTHON={sys.executable} VENV={machine}")
        assert deed in subprocess.run(dry, **words).stdout, cure


# ---- the machine -----------------------------------------------------------------------------


def test_four_ranks_on_one_gpu_go_by_the_hosts_memory(machine):
    libraries = {"torch": TORCH | {"gpus": 1}, "BlueFog": {"nccl": True}}
    script(machine, "ompi_info", "echo mca:mpi:base:param:mpi_built_with_cuda_support:value:false")
    found = doctor._gpus(libraries, 4)
    assert found.state == "note" and "host's memory" in found.cure
    assert "does not read" in found.found
    assert doctor._gpus(libraries, 1).state == "ok"
    libraries["BlueFog"] = {"nccl": False}
    assert "EXPOGRAPH_CUDA=1 make cluster-env" in doctor._gpus(libraries, 1).cure
    script(machine, "ompi_info", "echo mca:mpi:base:param:mpi_built_with_cuda_support:value:true")
    assert "Open MPI reads" in doctor._gpus(libraries, 1).found


@pytest.mark.parametrize(("user", "state"), [(0, "note"), (1000, "ok")])
def test_root(monkeypatch, user, state):
    monkeypatch.setattr(doctor.os, "geteuid", lambda: user)
    found = doctor._root()
    assert found.state == state and ("--allow-run-as-root" in found.cure) == (user == 0)


def test_slots_are_cores_not_their_hardware_threads(machine, monkeypatch):
    monkeypatch.setattr(doctor, "SIBLINGS", str(machine / "{}"))
    assert doctor._slots(4, {0, 1, 2, 3}).state == "ok"  # a kernel that doesn't tell
    for cpu in range(4):
        (machine / str(cpu)).write_text(f"{cpu % 2},{cpu % 2 + 2}")
    assert doctor._slots(2, {0, 1, 2, 3}).state == "ok"
    crowded = doctor._slots(4, {0, 1, 2, 3})
    assert crowded.state == "note" and "2 fit" in crowded.found
    assert "--oversubscribe" in crowded.cure and "yield" not in crowded.cure
    assert "yield_when_idle=1 (our" in doctor._slots(8, {0, 1, 2, 3}).cure
    monkeypatch.setenv("OMPI_MCA_mpi_yield_when_idle", "0")
    assert doctor._slots(8, {0, 1, 2, 3}).cure.endswith("yield_when_idle=1")


@pytest.mark.parametrize(
    ("ranks", "cores", "threads", "policy", "state", "cure"),
    [
        (2, 2, None, None, "ok", ""),
        (8, 2, "8", None, "note", "OMP_NUM_THREADS=1"),
        (2, 8, "16", None, "note", "OMP_NUM_THREADS=4"),
        (2, 8, "4,2", None, "note", "OMP_NUM_THREADS=4"),
        (2, 8, None, None, "note", "OMP_WAIT_POLICY=PASSIVE"),
        (2, 8, "4", "active", "note", "OMP_WAIT_POLICY=PASSIVE"),
        (2, 8, "1", "active", "ok", ""),  # one thread waits for nobody
        (2, 8, None, "passive", "ok", ""),
    ],
)
def test_threads(machine, monkeypatch, ranks, cores, threads, policy, state, cure):
    for name, value in (("OMP_NUM_THREADS", threads), ("OMP_WAIT_POLICY", policy)):
        if value:
            monkeypatch.setenv(name, value)
    found = doctor._threads(ranks, cores)
    assert found.state == state and cure in found.cure and bool(found.cure) == (state != "ok")


def test_data_is_looked_for_and_not_fetched(tmp_path, monkeypatch):
    from expograph.data import fashion_mnist

    monkeypatch.setenv("EXPOGRAPH_DATA", str(tmp_path))
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", tmp_path / "none")
    found = doctor._data()
    assert (found.state, found.cure) == ("note", "make data")
    assert not any(tmp_path.iterdir())
    (tmp_path / "fashion_mnist").mkdir()
    for file in fashion_mnist.SHA256:
        (tmp_path / "fashion_mnist" / file).touch()
    assert doctor._data().state == "ok"


def test_testbed_says_what_it_lacks_and_the_cure(monkeypatch):
    lacks = ["root (run it with sudo)", "ip (install iproute2)", "tc (install iproute2)"]
    monkeypatch.setattr(testbed, "missing", lambda: lacks)
    found = doctor._testbed()
    assert found == ("testbed", "missing", "lacks root, ip, tc", "run it with sudo; " + LAST)
    monkeypatch.setattr(testbed, "missing", lambda: ["Linux"])
    assert doctor._testbed().cure
    monkeypatch.setattr(testbed, "missing", list)
    assert doctor._testbed().state == "ok"


LAST = "install iproute2"


# ---- the screen ------------------------------------------------------------------------------


def test_an_engine_is_ready_if_nothing_it_needs_is_missing():
    every = {what for needs in doctor.NEEDS.values() for what in needs}
    assert every <= set(SECTIONS)
    good = [Finding(what, "ok", "") for what in every]
    assert set(verdicts(good).values()) == {"ready"}
    bad = [f._replace(state="broken") if f.what == "BlueFog" else f for f in good]
    bad = [f._replace(state="missing") if f.what == "testbed" else f for f in bad]
    told = verdicts(bad)
    assert told["bluefog"] == "needs BlueFog" and told["testbed"] == "needs testbed"
    assert told["embedded"] == told["mpi"] == told["horovod"] == "ready"


def test_the_engine_asked_for_decides_the_exit_status(monkeypatch, capsys):
    findings = [
        Finding("torch", "ok", "2"),
        Finding("BlueFog", "missing", "no", "do this"),
        Finding("data", "note", "not here"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda ranks: findings)
    for engine, status in {"embedded": 0, "bluefog": 1, "horovod": 0, "mpi": 0}.items():
        assert cli.main(["doctor", "--engine", engine]) == status
    assert cli.main(["doctor"]) == 0
    assert "-> do this" in capsys.readouterr().out
    findings[0] = Finding("torch", "broken", "bad", "cure")
    assert cli.main(["doctor"]) == 1


def test_brackets_in_a_message_are_printed_as_they_are(monkeypatch, capsys):
    found = "error in [/usr/lib/a.so] [red]or so"
    monkeypatch.setattr(doctor, "examine", lambda ranks: [Finding("torch", "note", found, "[/x]")])
    cli.main(["doctor"])
    out = capsys.readouterr().out
    assert found in out and "-> [/x]" in out


@pytest.mark.parametrize(
    "answer", [(127, "", "No such file"), (0, "junk\n{junk}\n", ""), (-11, "", "")]
)
def test_with_everything_broken_it_still_tells(machine, monkeypatch, capsys, answer):
    def fails():
        raise OSError("no /proc")

    monkeypatch.setattr(command, "run", lambda command: answer)
    monkeypatch.setattr(testbed, "missing", fails)
    (machine / "cluster.json").write_text("{")
    script(machine, "mpirun", "")
    assert cli.main(["doctor", "--ranks", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    for what in SECTIONS:
        assert any(line.startswith(what) for line in lines), what
    assert any("no /proc" in line for line in lines)
    assert "embedded: needs torch" in "\n".join(lines)


def test_the_doctor_itself_loads_nothing_that_may_be_broken():
    code = "import sys, expograph.cli; sys.exit(len({'torch', 'numpy', 'mpi4py'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_this_machine_on_one_screen():
    words = [sys.executable, "-m", "expograph.cli", "doctor", "--ranks", "8"]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    for what in SECTIONS:
        assert any(line.startswith(what) for line in lines), what
    # the last sentence, on as many lines as what is missing takes
    assert "embedded: ready; " in " ".join(lines[-4:])
    assert max(map(len, lines)) <= 80 and "\x1b" not in done.stdout
