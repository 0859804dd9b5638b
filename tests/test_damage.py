"""Files of the results damaged at random: no command crashes, no number is another run's.

Whole folders are cut, flipped, emptied, removed, swapped and replaced by what they are not.
"""

import contextlib
import io
import logging
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expograph import cli
from expograph.config import load
from expograph.files import DamagedFile
from expograph.report.reading import ReportError
from expograph.runs import results, store
from expograph.runs.selection import plan

CONFIG = """
name = "{name}"
[run]
nodes = 4
algorithm = "dsgd_atc"
topology = "ring"
steps = 30
lr = {lr}
[run.problem]
kind = "logistic"
[[sweep]]
topology = ["ring", "static_exponential"]
seed = [0, 1]
[[sweep]]
algorithm = ["psgd"]
topology = ["fully_connected"]
seed = [0, 1]
[table]
title = "{name}"
kind = "{kind}"
rows = ["algorithm", "topology"]
metrics = ["error_workers"]
"""
CLAIMS = """
kind = "claims"
[[claim]]
id = "growth"
ledger = "paper"
statement = "It grows."
source = "somewhere"
check = "growth_no_faster"
with = { config = "configs/transients.toml", order = 3.0, logarithms = 2.0, apart = 0.5 }
"""
NAMES = {"table1": "pivot", "transients": "transients"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A repository with two experiments that are done, their tables, ledger and figures."""
    place = tmp_path_factory.mktemp("whole")
    (place / "configs").mkdir()
    for i, (name, kind) in enumerate(NAMES.items()):
        text = CONFIG.format(name=name, kind=kind, lr=(0.1, 0.05)[i])
        (place / "configs" / f"{name}.toml").write_text(text)
    (place / "configs" / "claims.toml").write_text(CLAIMS)
    configs = [f"configs/{name}.toml" for name in NAMES]
    with contextlib.chdir(place):
        assert run("train", *configs)[0] == 0
        assert run("train", *configs, "--tables", "results/mine")[0] == 0
        assert run("claims")[0] in (0, 1)
    return place


def run(*words: str) -> tuple[int, str]:
    """A command line in this process: its status, and what it printed."""
    out, error = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = cli.main(words)
    texts = []
    for stream in (out, error):
        stream.seek(0)
        texts.append(stream.read())
    return status, "".join(texts)


# ---- what happens to a file ----


def cut(path: Path, where: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * where)])


def cut_at_a_line(path: Path, where: float) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: int(len(lines) * where)]))


def flip(path: Path, where: float) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[int((len(content) - 1) * where)] ^= 1
    path.write_bytes(content)


def remove(path: Path, where: float) -> None:
    path.unlink()


def into_a_folder(path: Path, where: float) -> None:
    path.unlink()
    path.mkdir()


def into_a_dangling_link(path: Path, where: float) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def swap(path: Path, where: float) -> None:
    """With a file of the same name, another run's or another experiment's."""
    others = sorted(p for p in Path("results").rglob(path.name) if p.is_file() and p != path)
    if others:
        other = others[int((len(others) - 1) * where)]
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)


def swap_folders(path: Path, where: float) -> None:
    folder = path.parent
    others = sorted(p for p in folder.parent.iterdir() if p.is_dir() and p != folder)
    if others and folder != Path("results"):
        other, aside = others[int((len(others) - 1) * where)], folder.with_name("aside")
        folder.rename(aside)
        other.rename(folder)
        aside.rename(other)


KINDS = [
    cut, cut_at_a_line, flip, remove, into_a_folder, into_a_dangling_link, swap, swap_folders
]  # fmt: skip
one = st.tuples(st.sampled_from(KINDS), st.floats(0, 1), st.floats(0, 1))
damages = st.lists(one, min_size=1, max_size=3)
often = settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@contextlib.contextmanager
def damaged(whole: Path, place: Path, changes, under: str = "results"):
    """A copy of the repository with the changes, as the working folder."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(whole, place)
    store._load.cache_clear()
    with contextlib.chdir(place):
        for change, which, where in changes:
            paths = sorted(p for p in Path(under).rglob("*") if p.is_file())
            if paths:
                change(paths[int((len(paths) - 1) * which)], where)
        yield


COMMANDS = {
    "table": ["table", "table1", "transients"],
    "table as csv": ["table", "table1", "--format", "csv"],
    "table of a folder": ["table", "results/mine/table1"],
    "claims": ["claims"],
    "verify": ["verify"],
    "figure": ["figure", "table1_curves", "transients"],
    "report": ["report"],
    "run": ["run", "KEY"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_crashes(command, whole, tmp_path):
    """A status, and lines on stderr: an exception would leave `main`."""
    with contextlib.chdir(whole):
        key = load("configs/table1.toml").runs[0].key
    words = [key if word == "KEY" else word for word in COMMANDS[command]]

    @often
    @given(damages)
    def check(changes):
        with damaged(whole, tmp_path / "copy", changes):
            status, said = run(*words)
            assert status in (0, 1, 2), said
            assert "Traceback" not in said

    check()


@often
@given(damages)
def test_no_table_shows_a_number_of_another_run(whole, tmp_path_factory, changes):
    with contextlib.chdir(whole):
        truth = {name: numbers(name) for name in NAMES}
    with damaged(whole, tmp_path_factory.getbasetemp() / "copy", changes):
        for name in NAMES:
            made, runs = numbers(name)
            assert made.items() <= truth[name][0].items()
            assert runs.items() <= truth[name][1].items()


def numbers(name: str) -> tuple[dict, dict]:
    """Every number of an experiment's tables, and of its runs, by its place."""
    from expograph.commands import table

    experiment = load(f"configs/{name}.toml")
    root, made = Path("results"), {}
    source = table.Source(name, root / name, experiment)
    with contextlib.suppress(DamagedFile, ReportError):
        for one in table.tables_in(source).tables if table.tables_in(source) else ():
            for record in one.records():
                made[one.id, *map(str, record.values())] = record["mean"]
    summary = results.summary(experiment.runs, root)
    done = summary[summary["status"] == "done"]
    columns = [c for c in ("key", "error_workers", "train_loss") if c in done]
    return made, {row["key"]: row for row in done[columns].to_dict("records")}


@often
@given(damages)
def test_a_damaged_run_is_named_and_planned_again(whole, tmp_path_factory, changes):
    """What is used again is whole; what is not is to be done, and said unless it is gone."""
    records = io.StringIO()
    handler = logging.StreamHandler(records)
    logging.getLogger("expograph").addHandler(handler)
    try:
        with damaged(whole, tmp_path_factory.getbasetemp() / "copy", changes, "results/runs"):
            for name in NAMES:
                runs = load(f"configs/{name}.toml").runs
                found = plan(runs, Path("results"))
                assert sorted(r.key for r in found.todo + found.reused) == sorted(
                    r.key for r in runs
                )
                for run_ in found.todo:
                    there = os.path.lexists(store.folder(run_, Path("results")))
                    assert not there or run_.key in records.getvalue()
                for run_ in found.reused:
                    folder = store.folder(run_, Path("results"))
                    before = whole / folder
                    assert (folder / "metrics.csv").read_bytes() == (
                        before / "metrics.csv"
                    ).read_bytes()
    finally:
        logging.getLogger("expograph").removeHandler(handler)


@settings(parent=often, max_examples=3)  # each trains what was damaged
@given(damages)
def test_a_sweep_does_again_what_was_damaged(whole, tmp_path_factory, changes):
    with damaged(whole, tmp_path_factory.getbasetemp() / "copy", changes, "results/runs"):
        status, said = run("train", "configs/table1.toml", "--jobs", "1")
        assert status == 0, said
        for run_ in load("configs/table1.toml").runs:
            here, there = (store.load(run_, root) for root in (Path("results"), whole / "results"))
            assert here.status == "done"
            assert here.final["error_workers"] == there.final["error_workers"]
