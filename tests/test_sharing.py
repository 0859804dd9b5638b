"""Two sweeps of one folder share its runs; locks of the dead are recovered, others respected."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_sweep import tiny
from test_sweep_faults import config_of, start, wait_for

from expograph.config import load
from expograph.files import owner
from expograph.runs import locks, store
from expograph.runs.pool import sweep
from expograph.runs.sharing import lock_of

HOST, NAMESPACE, PID, START = owner().split(".")
DEAD = f"{HOST}.{NAMESPACE}.999999999.{START}"  # there is no process with such a number
REBORN = f"{HOST}.{NAMESPACE}.{PID}.{int(START) - 1}"  # its number is another process's now
FOREIGN = f"elsewhere.{NAMESPACE}.{PID}.{START}"


def test_a_lock_has_one_holder(tmp_path):
    path = tmp_path / "a.lock"
    assert locks.take(path) is None and path.read_text() == owner()
    assert locks.take(path) is None  # its own
    path.write_text(FOREIGN)
    assert locks.take(path) == FOREIGN
    locks.release(path)  # not its own
    assert path.read_text() == FOREIGN
    assert [p.name for p in tmp_path.iterdir()] == ["a.lock"]


@pytest.mark.parametrize("text", [DEAD, REBORN], ids=["dead", "reborn"])
def test_the_lock_of_a_dead_process_is_recovered(text, tmp_path):
    path = tmp_path / "a.lock"
    path.write_text(text)
    assert locks.take(path) is None and path.read_text() == owner()
    locks.release(path)
    assert not list(tmp_path.iterdir())
    path.write_text(text)
    (tmp_path / "b.lock").write_text(FOREIGN)
    locks.remove_dead(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["b.lock"]


@pytest.mark.parametrize(
    "text", ["", "someone", "\0\xff", f"{owner()} and more"], ids=["empty", "word", "bytes", "more"]
)
def test_a_damaged_lock_is_recovered_once_nobody_can_be_writing_it(text, tmp_path):
    path = tmp_path / "a.lock"
    path.write_text(text)
    assert locks.take(path) == ""
    os.utime(path, (0, 0))
    assert locks.take(path) is None


def test_a_file_system_without_links_has_locks_too(tmp_path, monkeypatch):
    def refuse(*paths):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "a.lock"
    assert locks.take(path) is None and path.read_text() == owner()
    path.write_text(FOREIGN)
    assert locks.take(path) == FOREIGN


def test_two_sweeps_at_once_do_each_run_once(tmp_path):
    config, where = config_of(tmp_path, steps=1500, seeds=10), tmp_path / "results"
    both = [start(config, "--results", where, "--jobs", "1") for _ in range(2)]
    said = [process.communicate(timeout=180) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    finished = [int(out.split(" finished")[0].split()[-1]) for out, _ in said if " finished" in out]
    assert sum(finished) == 10 and len(finished) == 2, said
    made = [store.load(run, where) for run in load(config).runs]
    assert all(one.status == "done" for one in made)
    assert "±" in (where / "faulty" / "table.md").read_text()
    assert not list((where / "runs").glob("*.lock"))


def test_a_sweep_takes_up_what_a_killed_one_was_at(tmp_path):
    config, where = config_of(tmp_path, steps=10**7, seeds=2), tmp_path / "results"
    first = start(config, "--results", where, "--jobs", "2")
    wait_for(lambda: len(list((where / "runs").glob("*.lock"))) == 2)
    first.kill()
    first.communicate()
    assert len(list((where / "runs").glob("*.lock"))) == 2
    runs = [run.model_copy(update={"steps": 20}) for run in load(config).runs]
    for run, path in zip(runs, (where / "runs").glob("*.lock"), strict=True):
        path.rename(lock_of(run, where))
    assert len(sweep(runs, where, jobs=1).finished) == 2


def test_a_run_of_another_host_is_left_to_it(tmp_path, monkeypatch, caplog):
    """As long as it gives signs of life; it is named, and its lock stays."""
    monkeypatch.setattr("expograph.runs.sharing.TELL_AFTER", 0.0)
    monkeypatch.setattr(locks, "SILENT", 12.0)
    runs = [tiny(0), tiny(1)]
    path = lock_of(runs[0], tmp_path)
    path.parent.mkdir()
    path.write_text(FOREIGN)
    begun = time.monotonic()
    outcome = sweep(runs, tmp_path, jobs=1)
    assert time.monotonic() - begun > 11
    assert outcome.finished == runs[1:]
    ((run, cause),) = outcome.failed
    assert run == runs[0] and str(path) in cause and f"process {PID} on elsewhere" in cause
    assert path.read_text() == FOREIGN
    assert f"1 runs are being done by process {PID} on elsewhere" in caplog.text


def test_what_another_finishes_meanwhile_is_used(tmp_path, monkeypatch):
    from expograph.runs import sharing
    from expograph.runs.runner import execute

    run = tiny(0)
    path = lock_of(run, tmp_path)
    path.parent.mkdir()
    path.write_text(FOREIGN)
    look = sharing.Queue.look

    def other(queue):
        if path.exists():
            execute(run, tmp_path)
            path.unlink()
        look(queue)

    monkeypatch.setattr(sharing.Queue, "look", other)
    outcome = sweep([run], tmp_path, jobs=1)
    assert outcome.reused == [run] and not outcome.finished


def test_a_job_of_ranks_leaves_a_run_to_the_sweep_that_is_at_it(tmp_path):
    from expograph.runs.runner import execute_all

    job = SimpleNamespace(rank=0, hosts=["here"], doing=lambda *what: None)
    job.exchange = lambda value, what: [value]
    runs = [tiny(0), tiny(1)]
    path = lock_of(runs[0], tmp_path)
    path.parent.mkdir()
    path.write_text(FOREIGN)
    outcome = execute_all(runs, job, tmp_path)
    assert outcome.finished == runs[1:]
    ((run, cause),) = outcome.failed
    assert run == runs[0] and cause == f"{path}: process {PID} on elsewhere does it"
    assert [one.name for one in path.parent.glob("*.lock")] == [path.name]
    path.unlink()
    outcome = execute_all(runs, job, tmp_path)
    assert (outcome.finished, outcome.reused) == (runs[:1], runs[1:])


def test_a_living_holder_beats(tmp_path):
    path = Path(tmp_path, "a.lock")
    locks.take(path)
    os.utime(path, (0, 0))
    assert locks.is_silent(path)
    locks.beat(path)
    assert not locks.is_silent(path)
