"""Runs that stop in the middle and go on: equal, to the last bit, to runs that never stopped."""

import errno
import json
import logging
import math
import os
import pickle
import signal
from itertools import pairwise

import pytest
import torch
from test_sweep import tiny

from expograph import cli
from expograph.config import ConfigError, Run
from expograph.measure import chaos
from expograph.problems import convex
from expograph.runs import checkpoint, saved_state, spacing, store
from expograph.runs.interrupt import interruptible
from expograph.runs.pool import sweep
from expograph.runs.resuming import Saving, check_source, describe
from expograph.runs.runner import execute
from expograph.runs.saving import Saver
from expograph.runs.selection import USUAL, Policy
from expograph.runs.spacing import SHARE, Every, Spacing, asked

SOON = Saving(Every(math.inf, 4))
DIGITS = {"kind": "classification", "dataset": "digits", "batch_size": 4}
KINDS = {
    "convex": {"topology": "random_match", "record_every": 3, "evaluate_every": 6},
    "batch norm": {
        "problem": {**DIGITS, "model": "resnet8_bn"},
        "algorithm": "dmsgd",
        "beta": 0.9,
    },
    "quasi-global": {
        "problem": {**DIGITS, "model": "mlp", "accumulation": 2},
        "algorithm": "qg_dmsgd",
        "beta": 0.9,
        "topology": "static_exponential",
        "evaluate_every": None,
    },
    "servers": {"algorithm": "dsgd_awc", "nodes": 2, "local_size": 2},
}


class Stopped(Exception):
    pass


def stop_at(step: int, run: Run, root, monkeypatch, saving: Saving = SOON) -> None:
    """Do a run that ends without a word after so many steps."""
    after_step = Saver.after_step

    def stopping(self, now, position):
        after_step(self, now, position)
        if now == step:
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(Saver, "after_step", stopping)
        with pytest.raises(Stopped):
            execute(run, root, saving=saving)


def names(run: Run, root) -> list[str]:
    return sorted(path.name for path in checkpoint.folder(run, root).glob("*"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Results of runs that were never stopped."""
    done: dict[str, object] = {}

    def of(run: Run):
        if run.key not in done:
            done[run.key] = tmp_path_factory.mktemp("whole")
            execute(run, done[run.key])
        return done[run.key]

    return of


# ---- equal bits ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_to_the_same_bits(kind, tmp_path, monkeypatch, whole):
    run = tiny(**KINDS[kind])
    stop_at(15, run, tmp_path, monkeypatch)
    assert names(run, tmp_path) == ["12.0.pt", "12.json", "8.0.pt", "8.json"]
    stop_at(18, run, tmp_path, monkeypatch)  # a second time
    execute(run, tmp_path, saving=SOON)
    assert store.load(run, tmp_path).resumed == [12, 16]
    assert chaos.compare(run, whole(run), tmp_path)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [run.key]


def test_checkpoints_change_nothing(tmp_path, whole):
    run = tiny(**KINDS["batch norm"])
    execute(run, tmp_path, saving=SOON)
    assert chaos.compare(run, whole(run), tmp_path) and not store.load(run, tmp_path).resumed


def test_a_run_that_diverges_does_so_at_the_same_step(tmp_path, monkeypatch):
    run = tiny(problem={"kind": "least_squares"}, lr=1e3, steps=2000)
    assert execute(run, tmp_path / "whole") == "diverged"
    stop_at(21, run, tmp_path / "stopped", monkeypatch)
    assert execute(run, tmp_path / "stopped") == "diverged"
    notes = {store.load(run, tmp_path / where).note for where in ("whole", "stopped")}
    assert len(notes) == 1 and not checkpoint.folder(run, tmp_path / "stopped").exists()


def test_killed_processes_lose_nothing(tmp_path):
    count = chaos.Count("embedded", "its process")
    kinds = [run.model_copy(update={"steps": 400}) for run in chaos.runs_of(chaos.EMBEDDED[:1])]
    list(chaos.torment(kinds, 2, chaos.in_a_process(), count, tmp_path))
    assert count.kills == 2 and count.lost == 0


def test_threads_are_those_it_began_with(tmp_path, monkeypatch):
    run, before = tiny(), torch.get_num_threads()
    torch.set_num_threads(1)
    stop_at(9, run, tmp_path, monkeypatch)
    torch.set_num_threads(2)
    execute(run, tmp_path)
    assert store.load(run, tmp_path).threads == 1 and torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_tensorboard_has_the_records_from_before(tmp_path, monkeypatch):
    from expograph.runs.tensorboard import folder

    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = tiny()
    stop_at(15, run, tmp_path, monkeypatch)
    execute(run, tmp_path, tensorboard=True)
    events = accumulator.EventAccumulator(str(folder(run, tmp_path))).Reload()
    assert [e.step for e in events.Scalars("consensus_distance")] == [0, 10, 20, 25]


# ---- interrupted ----


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_an_interrupted_run_finishes_its_step_and_is_saved(number, tmp_path, monkeypatch, whole):
    run, gradient = tiny(), convex.Convex.gradient

    def interrupted(self, x, buffers, k):
        if k == 10:
            signal.raise_signal(number)
        return gradient(self, x, buffers, k)

    with monkeypatch.context() as patch:
        patch.setattr(convex.Convex, "gradient", interrupted)
        with pytest.raises(KeyboardInterrupt), interruptible():
            execute(run, tmp_path)
    for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert names(run, tmp_path) == ["11.0.pt", "11.json"]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [f"{run.key}.checkpoint"]
    assert len(sweep([run], tmp_path, jobs=1).finished) == 1
    assert chaos.compare(run, whole(run), tmp_path)


# ---- which checkpoint counts ----


def flip(path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "cut state": ("12.0.pt", lambda path: path.write_bytes(path.read_bytes()[:100])),
    "flipped state": ("12.0.pt", flip),
    "no state": ("12.0.pt", lambda path: path.unlink()),
    "flipped manifest": ("12.json", flip),
    "cut manifest": ("12.json", lambda path: path.write_text(path.read_text()[:50])),
    "a list": ("12.json", lambda path: path.write_text("[]")),
    "another step": (
        "12.json",
        lambda path: path.write_text(path.read_text().replace('"step": 12', '"step": 11')),
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_of_a_damaged_checkpoint_the_one_before_is_used(
    damage, tmp_path, monkeypatch, caplog, whole
):
    run = tiny()
    stop_at(15, run, tmp_path, monkeypatch)
    name, change = DAMAGES[damage]
    change(checkpoint.folder(run, tmp_path) / name)
    with caplog.at_level(logging.WARNING):
        execute(run, tmp_path)
    assert store.load(run, tmp_path).resumed == [8] and chaos.compare(run, whole(run), tmp_path)
    assert len(caplog.messages) == 1 and f"{run.key}.checkpoint/12." in caplog.messages[0]


def test_a_checkpoint_of_another_run_is_not_used(tmp_path, monkeypatch, whole):
    run, other = tiny(), tiny(seed=1)
    stop_at(15, other, tmp_path, monkeypatch)
    checkpoint.folder(other, tmp_path).rename(checkpoint.folder(run, tmp_path))
    execute(run, tmp_path)
    assert store.load(run, tmp_path).resumed == [] and chaos.compare(run, whole(run), tmp_path)


def test_reading_a_checkpoint_runs_no_code(tmp_path, monkeypatch):
    """Not even one whose checksums fit."""

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "evil"),)

    run = tiny()
    stop_at(6, run, tmp_path, monkeypatch)
    place = checkpoint.folder(run, tmp_path)
    (manifest,) = checkpoint.manifests(place)
    for write in (pickle.dumps, lambda evil: None):
        if content := write(Evil()):
            (place / "4.0.pt").write_bytes(content)
        else:
            torch.save({"state": Evil()}, place / "4.0.pt")
        checksum = store.sha256((place / "4.0.pt").read_bytes())
        file = manifest.files[0].model_copy(update={"sha256": checksum})
        checkpoint.write_manifest(place, manifest.model_copy(update={"files": (file,)}))
        execute(run, tmp_path)
        assert store.load(run, tmp_path).resumed == [] and not (tmp_path / "evil").exists()
        stop_at(6, run, tmp_path, monkeypatch)


def test_other_code_starts_anew_and_says_so(tmp_path, monkeypatch):
    run = tiny()
    stop_at(15, run, tmp_path, monkeypatch)
    assert describe([run], tmp_path, USUAL) == ["1 run goes on from checkpoints"]
    assert describe([run], tmp_path, Policy(force=True)) == []
    check_source(run.key, [run], tmp_path)
    monkeypatch.setattr(checkpoint, "provenance", lambda run: made | {"code": "0123456789ab"})
    made = {name: "1" for name in ("python", *checkpoint.PACKAGES)}
    (line,) = describe([run], tmp_path, USUAL)
    assert run.label in line and "was made by other code: starts anew" in line
    with pytest.raises(ConfigError, match="the checkpoint was made by other code"):
        check_source(run.key, [run], tmp_path)
    execute(run, tmp_path)
    assert store.load(run, tmp_path).resumed == []


def test_an_explicit_resume_is_refused_in_one_line(tmp_path, monkeypatch):
    run = tiny()
    stop_at(15, run, tmp_path, monkeypatch)
    for key, runs, said in (
        (run.key, [tiny(lr=0.2)], "another config: its lr is 0.1, not 0.2"),
        (run.key, [tiny(), tiny(1)], "is for one run, these are 2"),
        ("0123", [run], "no checkpoint in"),
    ):
        with pytest.raises(ConfigError) as error:
            check_source(key, runs, tmp_path)
        assert said in str(error.value) and "\n" not in str(error.value)


def test_force_begins_anew_and_finished_runs_have_no_checkpoint(tmp_path, monkeypatch):
    run, done = tiny(), tiny(1)
    execute(done, tmp_path)
    checkpoint.folder(done, tmp_path).mkdir()  # killed between its results and this
    stop_at(15, run, tmp_path, monkeypatch)
    sweep([run, done], tmp_path, jobs=1, policy=Policy(force=True))
    assert store.load(run, tmp_path).resumed == []
    checkpoint.folder(done, tmp_path).mkdir()
    sweep([run, done], tmp_path, jobs=1)
    assert not list((tmp_path / "runs").glob("*.checkpoint"))


def test_rows_can_be_read_by_other_processes_than_wrote_them(tmp_path, monkeypatch):
    """What four ranks wrote in one process, and the other way round."""
    run = tiny(algorithm="dmsgd", beta=0.9)
    stop_at(6, run, tmp_path, monkeypatch)
    place, cpu = checkpoint.folder(run, tmp_path), torch.device("cpu")
    (manifest,) = checkpoint.manifests(place)
    all_rows, records = saved_state.read(place, manifest, range(4), cpu)
    files = []
    for rank in range(4):
        position, _ = saved_state.read(place, manifest, range(rank, rank + 1), cpu)
        assert torch.equal(position.state["m"], all_rows.state["m"][rank : rank + 1])
        ranks = range(rank, rank + 1)
        files.append(saved_state.write(tmp_path, position, ranks, records if rank == 0 else []))
    ranked = manifest.model_copy(update={"files": tuple(files)})
    position, again = saved_state.read(tmp_path, ranked, range(4), cpu)
    assert all(torch.equal(x, position.state[name]) for name, x in all_rows.state.items())
    assert torch.equal(position.sent, all_rows.sent) and again == records


# ---- how often ----


@pytest.mark.parametrize("cost", [0.01, 0.5, 30.0])
def test_the_first_after_a_minute_and_at_most_two_per_cent(cost):
    clock, saved = [0.0], []
    spacing_ = Spacing(Every(300.0), int(2 * cost * spacing.SLOW_DISK), lambda: clock[0])
    for step in range(40_000):
        clock[0] += 1.0
        if spacing_.due(step):
            clock[0] += cost
            spacing_.saved(cost)
            saved.append(clock[0])
        assert len(saved) * cost <= SHARE * clock[0] + 1e-9
    assert saved[0] >= 60 and saved[0] <= max(61, 100 * cost) + cost
    assert min(b - a for a, b in pairwise(saved)) >= 300
    assert len(saved) >= SHARE * clock[0] / (2 * cost) or len(saved) > 100


def test_the_cost_is_measured_and_never_is_never():
    clock = [0.0]
    slow = Spacing(Every(0.0), 0, lambda: clock[0])
    assert slow.due(1)
    slow.saved(2.0)
    clock[0] = 199.0
    assert not slow.due(2)  # 4 s of 199
    clock[0] = 200.0
    assert slow.due(3)
    assert not Spacing(asked("never"), 0, lambda: 1e9).due(10)


def test_what_may_be_asked_for(monkeypatch, capsys):
    assert asked("0.5") == Every(30.0) and asked("1000steps") == Every(math.inf, 1000)
    assert asked() == Every(300.0)
    monkeypatch.setenv(spacing.VARIABLE, "7")
    assert asked() == Every(420.0) and asked("1") == Every(60.0)
    for wrong in ("", "-1", "0steps", "1e3", "5min", "nan", "inf"):
        with pytest.raises(ConfigError, match=r"--checkpoint .*needs minutes"):
            asked(wrong)
    monkeypatch.setenv(spacing.VARIABLE, "often")
    assert cli.main(["train", "configs/convex.toml", "seed=0"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "EXPOGRAPH_CHECKPOINT 'often': needs minutes" in error


def test_a_disk_that_is_full_stops_no_run(tmp_path, monkeypatch, caplog, whole):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run = tiny()
    monkeypatch.setattr(torch, "save", full)
    with caplog.at_level(logging.WARNING):
        execute(run, tmp_path, saving=SOON)
    (line,) = caplog.messages
    assert "a checkpoint was not written: No space left on device" in line
    assert chaos.compare(run, whole(run), tmp_path)


def test_a_manifest_says_what_it_is_of(tmp_path, monkeypatch):
    run = tiny()
    stop_at(6, run, tmp_path, monkeypatch)
    content = json.loads((checkpoint.folder(run, tmp_path) / "4.json").read_text())["checkpoint"]
    assert Run.model_validate(content["run"]) == run and content["threads"] >= 1
    assert content["block"] > 0 and content["versions"]["torch"]
