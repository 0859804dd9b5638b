"""What sweeps meet: killed processes, full disks, damaged runs, signals, other code."""

import errno
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_sweep import tiny

from expograph import cli, files
from expograph.config import Run, load
from expograph.runs import pool, results, store, threads, worker
from expograph.runs.cores import _quotas, cores
from expograph.runs.pool import sweep
from expograph.runs.provenance import repository
from expograph.runs.runner import execute
from expograph.runs.selection import Policy, plan
from expograph.runs.threads import processes

CONFIG = """
name = "faulty"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = {steps}
lr = 0.1
[run.problem]
kind = "logistic"
[[sweep]]
seed = {seeds}
[table]
title = "Faulty"
rows = ["topology"]
column = "nodes"
metrics = ["error_workers"]
"""


def config_of(folder: Path, steps: int = 20, seeds: int = 2) -> Path:
    path = folder / "faulty.toml"
    path.write_text(CONFIG.format(steps=steps, seeds=list(range(seeds))))
    return path


def start(*words: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "expograph", "sweep", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


# ---- processes that die ----


def test_the_first_process_of_a_sweep_may_die(tmp_path):
    """Whichever it is: status 0 only with every run done."""
    config = config_of(tmp_path, seeds=12)
    first = start(config, "--jobs", "2", "--results", tmp_path / "results")
    wait_for(lambda: children(first.pid))
    os.kill(children(first.pid)[0], signal.SIGKILL)
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 0, errors
    assert len(list((tmp_path / "results" / "runs").glob("*/run.json"))) == 12


def test_a_process_killed_while_it_starts_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "serve", _die_twice_at_the_start)
    monkeypatch.setenv("STARTS", str(tmp_path / "starts"))
    outcome = sweep([tiny(seed) for seed in range(4)], tmp_path, jobs=1)
    assert len(outcome.finished) == 4 and not outcome.failed
    assert len((tmp_path / "starts").read_text()) == 3  # one process did them all


def _die_twice_at_the_start(*arguments) -> None:
    with open(os.environ["STARTS"], "a") as file:
        file.write("x")
    if len(Path(os.environ["STARTS"]).read_text()) <= 2:
        os.kill(os.getpid(), signal.SIGKILL)
    worker.serve(*arguments)


def test_processes_that_never_start_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "serve", _never_start)
    outcome = sweep([tiny(seed) for seed in range(3)], tmp_path, jobs=1)
    assert len(outcome.failed) == 3 and "died while they started" in outcome.failed[0][1]


def _never_start(*arguments) -> None:
    os._exit(1)


# ---- where results go ----


def test_a_disk_that_is_full_from_the_start_trains_nothing(tmp_path, monkeypatch, capsys):
    def full(self, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    words = ["train", str(config_of(tmp_path)), "--results", str(tmp_path / "results")]
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "No space left on device" in captured.err
    assert "runs of" not in captured.out
    with pytest.raises(OSError, match="No space"):
        execute(tiny(steps=10**9), tmp_path)  # at once, before the training
    assert not list((tmp_path / "runs").iterdir())


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=120k", "none", str(place)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_keeps_what_was_done(small_disk, tmp_path, capsys):
    config = config_of(tmp_path, steps=2500, seeds=6)
    words = ["train", str(config), "--jobs", "1", "--results", str(small_disk / "results")]
    assert cli.main(words) == 1
    errors = [e for e in capsys.readouterr().err.splitlines() if e.startswith("failed: ")]
    assert errors and all("No space left on device" in line for line in errors)
    runs = load(config).runs
    kept = [run for run in runs if store.load(run, small_disk / "results")]
    assert len(kept) + len(errors) == 6 and kept
    assert not list((small_disk / "results" / "runs").glob(".*"))


@pytest.mark.parametrize("what", ["a file", "a loop", "no name"])
def test_results_that_cannot_be_a_folder_are_one_line(tmp_path, what, capsys):
    place = tmp_path / "results"
    if what == "a file":
        place.touch()
    elif what == "a loop":
        place.symlink_to(place)
    words = ["train", str(config_of(tmp_path)), "--results"]
    assert cli.main([*words, "" if what == "no name" else str(place)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_runs_may_lie_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv(store.RUNS, str(tmp_path / "elsewhere"))
    words = ["train", str(config_of(tmp_path)), "--jobs", "1"]
    assert cli.main([*words, "--results", str(tmp_path / "a")]) == 0
    assert not (tmp_path / "a" / "runs").exists()
    assert len(list((tmp_path / "elsewhere").glob("*/run.json"))) == 2
    runs = load(config_of(tmp_path)).runs
    assert plan(runs, tmp_path / "another").reused == runs  # a new checkout


# ---- runs whose files do not fit ----


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rewrite(change):
    def apply(path: Path) -> None:
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return apply


DAMAGES = {
    "cut metrics": ("metrics.csv", cut),
    "empty metrics": ("metrics.csv", lambda path: path.write_text("")),
    "no metrics": ("metrics.csv", Path.unlink),
    "cut record": ("run.json", cut),
    "no record": ("run.json", Path.unlink),
    "a list": ("run.json", lambda path: path.write_text("[]")),
    "no status": ("run.json", rewrite(lambda c: c.pop("status"))),
    "strange status": ("run.json", rewrite(lambda c: c.update(status="weird"))),
    "no final": ("run.json", rewrite(lambda c: c.update(final={}))),
    "true": ("run.json", rewrite(lambda c: c["final"].update(error_workers=True))),
    "text": ("run.json", rewrite(lambda c: c["final"].update(error_workers="0.5"))),
    "another config": ("run.json", rewrite(lambda c: c["run"].update(lr=0.2))),
    "binary": ("run.json", lambda path: path.write_bytes(b"\xff\xfe\x00")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_named_once_and_done_again(damage, tmp_path, caplog):
    run = tiny()
    execute(run, tmp_path)
    name, change = DAMAGES[damage]
    change(store.folder(run, tmp_path) / name)
    with caplog.at_level(logging.WARNING):
        assert store.load(run, tmp_path) is None and store.load(run, tmp_path) is None
        assert results.summary([run], tmp_path)["status"].tolist() == ["missing"]
    assert len(caplog.messages) == 1
    assert run.key in caplog.messages[0] and "\n" not in caplog.messages[0]
    assert plan([run], tmp_path).todo == [run]
    execute(run, tmp_path)
    assert store.load(run, tmp_path).status == "done"


def test_the_metrics_of_another_run_are_noticed(tmp_path):
    runs = [tiny(0), tiny(1)]
    for run in runs:
        execute(run, tmp_path)
    a, b = (store.folder(run, tmp_path) / "metrics.csv" for run in runs)
    first = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(first)
    assert plan(runs, tmp_path).todo == runs


# ---- other code ----


def test_runs_by_other_code_are_done_again_unless_kept(tmp_path, capsys):
    config, where = config_of(tmp_path), ["--jobs", "1", "--results", str(tmp_path / "results")]
    assert cli.main(["train", str(config), *where]) == 0
    runs = load(config).runs
    path = store.folder(runs[0], tmp_path / "results") / "run.json"
    content = json.loads(path.read_text())
    content["provenance"]["code"] = "0123456789ab"
    path.write_text(json.dumps(content))
    capsys.readouterr()
    assert cli.main(["train", str(config), "--keep-stale", *where]) == 0
    out = capsys.readouterr().out
    assert "1 run was made by other code: used" in out and "2 used again" in out
    note = (tmp_path / "results" / "faulty" / "table.md").read_text()
    assert "1 of these runs were made by other code" in note
    assert cli.main(["train", str(config), *where]) == 0
    out = capsys.readouterr().out
    assert "1 run was made by other code: done again; --keep-stale uses them" in out
    assert "1 finished, 1 used again" in out
    assert "other code" not in (tmp_path / "results" / "faulty" / "table.md").read_text()
    assert plan(runs, tmp_path / "results", Policy(force=True)).stale == []


def test_the_commit_is_that_of_the_repository_that_holds_the_source(tmp_path):
    source = tmp_path / "site-packages" / "expograph"
    source.mkdir(parents=True)
    (source / "provenance.py").touch()
    assert repository(source) == (None, None)

    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", *words],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip

    git("init")
    git("commit", "--allow-empty", "-m", "another project")
    repository.cache_clear()
    assert repository(source) == (None, None)
    git("add", ".")
    git("commit", "-m", "its own")
    repository.cache_clear()
    commit, changed = repository(source)
    assert re.fullmatch("[0-9a-f]{40}", commit) and changed is False
    repository.cache_clear()


# ---- signals, cores, threads ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1])
def test_two_signals_end_a_sweep_once(tmp_path, number):
    config = config_of(tmp_path, steps=10**7)
    first = start(config, "--results", tmp_path / "results", "--jobs", "2")
    runs = tmp_path / "results" / "runs"
    wait_for(lambda: any(runs.glob(".*.tmp")))
    first.send_signal(number)
    time.sleep(0.05)
    first.send_signal(number)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 130
    assert errors.strip() == "interrupted; the same command goes on where this one was"
    assert {path.suffix for path in runs.iterdir()} <= {".threads", ".checkpoint"}
    assert list(runs.glob("*.checkpoint/*.json"))  # of a run that was being trained


def test_a_sweep_whose_reader_has_gone_goes_on(tmp_path):
    config = config_of(tmp_path, steps=2000, seeds=3)
    where = tmp_path / "results"
    words = f"{sys.executable} -m expograph sweep {config} --results {where} --jobs 1 | head -1"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert "3 runs of" in done.stdout and done.stderr == ""
    wait_for(lambda: (where / "faulty" / "table.md").exists())
    assert len(list((where / "runs").glob("*/run.json"))) == 3


def test_a_long_name_of_the_temporary_folder_is_no_matter(tmp_path, monkeypatch):
    place = tmp_path / ("a" * 100)
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    assert len(sweep([tiny(0), tiny(1)], tmp_path, jobs=2).finished) == 2


def test_cores_are_those_of_the_affinity_and_the_control_group(tmp_path):
    here = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(here)})
        assert cores() == 1 and processes(8) == (1, 1)
    finally:
        os.sched_setaffinity(0, here)
    group = tmp_path / "a" / "b"
    group.mkdir(parents=True)
    (tmp_path / "a" / "cpu.max").write_text("250000 100000\n")
    (group / "cpu.max").write_text("max 100000\n")
    (tmp_path / "self").write_text("0::/a/b\n")
    assert min(_quotas(tmp_path, tmp_path / "self")) == 3  # 2.5 cores
    old = tmp_path / "cpu" / "c"
    old.mkdir(parents=True)
    (old / "cpu.cfs_quota_us").write_text("200000\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "self").write_text("4:cpu,cpuacct:/c\n3:memory:/d\n")
    assert min(_quotas(tmp_path, tmp_path / "self")) == 2
    assert min(_quotas(tmp_path, tmp_path / "nowhere")) == float("inf")


def small_mlp(seed: int = 0, **changes: object) -> Run:
    """A run that two threads may be good for."""
    problem = {"kind": "classification", "dataset": "digits", "model": "mlp", "batch_size": 8}
    return tiny(seed, algorithm="dmsgd", beta=0.9, problem=problem, **changes)


def test_threads_are_chosen_when_a_run_first_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 4)
    assert processes(72) == (4, 1) and processes(72, jobs=2) == (2, 2) and processes(1) == (1, 4)
    monkeypatch.setattr(threads, "cores", lambda: 2)
    alone, convex, *others = [small_mlp(9), tiny(9), *map(small_mlp, range(3))]
    execute(others[0], tmp_path)
    sweep(others, tmp_path)
    sweep([alone], tmp_path)
    sweep([convex], tmp_path)
    assert [store.load(run, tmp_path).threads for run in others[1:]] == [1, 1]
    assert store.load(alone, tmp_path).threads == 2
    assert store.load(convex, tmp_path).threads == 1  # two only make it slower
    assert not list((tmp_path / "runs").glob("*.threads"))


def test_a_repeated_run_has_the_threads_of_its_record(tmp_path, monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 2)
    runs = [small_mlp(seed) for seed in range(3)]
    sweep(runs, tmp_path)
    curves = [store.curve(run, tmp_path).drop(columns="train_seconds") for run in runs]
    for run, curve in zip(runs, curves, strict=True):
        sweep([run], tmp_path, policy=Policy(force=True))
        assert store.load(run, tmp_path).threads == 1
        assert store.curve(run, tmp_path).drop(columns="train_seconds").equals(curve)


@pytest.mark.parametrize(("first", "second", "expected"), [(3, 1, 1), (1, 3, 2)])
def test_a_killed_run_starts_again_with_its_threads(tmp_path, monkeypatch, first, second, expected):
    """Whether the command that takes it up has fewer runs or more."""
    monkeypatch.setattr(threads, "cores", lambda: 2)
    runs = [small_mlp(seed) for seed in range(3)]
    monkeypatch.setattr(pool, "WORK", "test_sweep_faults:_be_killed")
    sweep(runs[:first], tmp_path)
    assert not store.load(runs[0], tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(threads, "cores", lambda: 2)
    sweep(runs[:second], tmp_path)
    assert store.load(runs[0], tmp_path).threads == expected


def _be_killed(run: Run, **options: object) -> str:
    os.kill(os.getpid(), signal.SIGKILL)


def test_files_of_killed_writers_are_told_from_those_of_living_ones(tmp_path):
    assert files.alive(files.owner()) is True
    host, namespace, pid, start = files.owner().split(".")
    assert files.alive(f"{host}.{namespace}.{pid}.{int(start) + 1}") is False
    assert files.alive(f"elsewhere.{namespace}.{pid}.{start}") is None
    assert files.alive(f"{host}.1.{pid}.{start}") is None
    assert files.alive("no owner") is None
    dead = tmp_path / f".table.md.{host}.{namespace}.999999999.5.tmp"
    dead.touch()
    files.remove_leftovers(tmp_path)
    assert not dead.exists()
