"""The command `expograph`: statuses, one-line errors, help, completion, drawing, watching."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from expograph import cli, files
from expograph.commands import table
from expograph.graphs.topology import TOPOLOGIES, names
from expograph.runs import progress, store, tensorboard
from expograph.runs.pool import sweep

CONFIG = """
name = "small"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = 20
record_every = 5
lr = 0.1
[run.problem]
kind = "logistic"
[[sweep]]
topology = ["ring", "one_peer_exponential"]
seed = [0, 1]
[table]
title = "Small"
rows = ["topology"]
column = "nodes"
metrics = ["error_workers"]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    return path


def results_of(tmp_path):
    return ["--results", str(tmp_path / "results")]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_of_every_command_teaches_by_examples(name, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main([name, "--help"])
    out = capsys.readouterr().out
    assert exit.value.code == 0
    assert "examples:" in out and f"  expograph {name}" in out
    assert max(map(len, out.splitlines())) <= 100


def test_examples_in_the_help_are_accepted(capsys):
    """Every `expograph ...` line of every help parses, with its options as they are now."""
    pages = {name: cli.module_of(name).__doc__ for name in cli.COMMANDS} | {"": cli.DESCRIPTION}
    for page in pages.values():
        for line in re.findall(r"^  (?:bfrun -np 8 )?expograph (.*)$", page, re.MULTILINE):
            words = re.split(r"\s{2,}|\s>\s", line)[0].split()
            if words[0] == "COMMAND":
                continue
            parser = cli.describe(cli.argparse.ArgumentParser(), cli.module_of(words[0]))
            parser.parse_intermixed_args(words[1:])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tran"], "invalid choice: 'tran'"),
        (["train", "configs/tabel2.toml"], "configs/tabel2.toml: No such file"),
        (["train", "configs/table2.toml", "topolgy=ring"], "did you mean run.topology?"),
        (["train", "configs/table2.toml", "--jobs", "0"], "--jobs 0: needs at least 1"),
        (["sweep", "configs/table2.toml", "--engine", "mpi"], "--engine mpi: give --np"),
        (["table"], "table: which?"),
        (["table", "tabel2"], "configs/tabel2.toml: No such file"),
        (["table", "table2", "--format", "csv", "--results", "nowhere"], "is not there"),
        (["figure", "transient"], "did you mean 'transients'?"),
        (["topology", "show"], "topology show: which?"),
        (["topology", "show", "rong"], "unknown topology 'rong'; did you mean 'ring'?"),
        (["topology", "show", "ring", "--nodes", "0"], "--nodes 0: needs at least 1"),
        (["topology", "show", "ring", "--steps", "-1"], "--steps -1: needs at least 1"),
        (["topology", "show", "ring", "--output", "a.txt"], "must end in .png, .svg or .pdf"),
        (["topology", "show", "ring", "--output", "no/a.png"], "no folder no"),
        (["claims", "--file", "nowhere.toml"], "nowhere.toml: No such file"),
    ],
)
def test_what_is_wrong_is_said_and_the_status_is_2(words, said, capsys):
    try:
        status = cli.main(words)
    except SystemExit as exit:  # argparse's way, after the usage
        status = exit.code
    error = capsys.readouterr().err
    assert status == 2
    assert said in error and "Traceback" not in error
    assert error.startswith("usage:") or error.count("\n") == 1


def test_completion_knows_commands_options_and_topologies(tmp_path):
    if not shutil.which("bash"):
        pytest.skip("no bash")
    words = [sys.executable, "-m", "expograph", "completion", "bash"]
    (tmp_path / "script").write_text(subprocess.check_output(words, text=True))

    def completed(*line: str) -> set[str]:
        code = (
            f"source {tmp_path}/script; COMP_WORDS=({' '.join(line)} ''); COMP_CWORD={len(line)};"
            '_shtab_expograph; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        return set(subprocess.check_output(["bash", "-c", code], text=True).split())

    assert set(cli.COMMANDS) <= completed("expograph")
    assert set(TOPOLOGIES) <= completed("expograph", "topology", "show")


@pytest.mark.parametrize(("name", "n"), [(t, n) for n in (1, 2, 6, 16) for t in names(n)])
def test_every_topology_is_drawn_in_a_terminal(name, n, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert cli.main(["topology", "show", name, "--nodes", str(n), "--steps", "2"]) == 0
    out = capsys.readouterr().out
    assert "averages exactly" in out and "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 120


def test_the_one_peer_graph_in_a_terminal_is_the_one_of_the_paper(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    cli.main(["topology", "show", "one_peer_exponential", "--nodes", "8"])
    out = capsys.readouterr().out
    sent = re.findall(r"rank 0 sends to (\d+) \(weight 0.5\)", out)
    assert sent == ["1", "2", "4"]
    assert "messages a step, busiest rank: 1" in out and "averages exactly: 3 steps" in out
    first = [line for line in out.splitlines() if line.rstrip().endswith("▓▓············▓▓")]
    assert first  # row 0 of W(0): rank 0 hears itself and rank 7


def test_a_topology_goes_to_files(tmp_path, capsys):
    for suffix, start in {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}.items():
        path = tmp_path / f"graph.{suffix}"
        words = ["topology", "show", "one_peer_exponential", "--nodes", "6", "--output", str(path)]
        assert cli.main(words) == 0
        for written in (path, tmp_path / f"graph_matrices.{suffix}"):
            assert written.read_bytes().startswith(start)


def test_the_list_has_every_topology_once(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")  # names are whole on the narrowest terminal
    cli.main(["topology", "list", "--nodes", "8"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    lines = [line for line in lines if line and line[0] in names()]
    assert [line[0] for line in lines] == list(names(8))
    by_name = {line[0]: line[1:] for line in lines}
    assert by_name["static_exponential"][:3] == ["1", "3", "0.500"]
    assert by_name["fully_connected"][:2] == ["1", "1.75"]  # an all-reduce, 2 (n - 1) / n
    assert by_name["one_peer_exponential"][:3] == ["3", "1", "0.500"]  # S/n = (n - 1 - log2 n) / n
    assert by_name["one_peer_exponential"][4:] == ["3"]


def test_train_then_table_then_again(config, tmp_path, capsys):
    where = results_of(tmp_path)
    assert cli.main(["table", str(config), *where]) == 1
    assert "no runs yet" in capsys.readouterr().err
    assert cli.main(["train", str(config), "seed=0", "--jobs", "1", *where]) == 0
    assert "custom/small/seed=0" in capsys.readouterr().out
    assert cli.main(["table", str(config), *where]) == 0
    out = capsys.readouterr().out
    assert out.count("(1 of 2)") == 2  # half of the seeds are there
    assert cli.main(["sweep", str(config), "--jobs", "1", *where]) == 0
    assert "2 used again" in capsys.readouterr().out.replace("\n", " ")
    assert cli.main(["table", str(config), *where]) == 0
    assert "±" in capsys.readouterr().out
    for name, start in {"markdown": "# Small", "latex": "%", "csv": "table,topo"}.items():
        assert cli.main(["table", str(config), "--format", name, *where]) == 0
        assert capsys.readouterr().out.startswith(start)
    shutil.rmtree(tmp_path / "results" / "runs")  # as in a fresh clone: the committed table
    assert cli.main(["table", str(config), *where]) == 0
    assert "±" in capsys.readouterr().out


def test_a_path_with_an_equals_sign_is_a_config_if_it_is_there(config, tmp_path, capsys):
    path = tmp_path / "n=4.toml"
    assert cli.main(["train", str(path)]) == 2
    assert "expected a config file" in capsys.readouterr().err
    path.write_text(CONFIG)
    assert cli.main(["train", str(path), "topolgy=ring"]) == 2
    assert capsys.readouterr().err.startswith(f"{path}: run.topolgy: unknown key")
    words = ["train", str(config), "problem.backbone_weights=w.toml"]
    assert cli.main(words) == 2
    assert "run.problem.backbone_weights" in capsys.readouterr().err


def test_a_table_is_of_the_data_not_of_its_renderings(config, tmp_path, capsys):
    where = results_of(tmp_path)
    assert cli.main(["train", str(config), "--jobs", "1", *where]) == 0
    folder = tmp_path / "results" / "small"
    shutil.rmtree(tmp_path / "results" / "runs")
    capsys.readouterr()
    words = ["table", str(config), "--format", "markdown", *where]
    assert cli.main(words) == 0
    before = capsys.readouterr().out
    assert before == (folder / "table.md").read_text()
    for path in [*folder.glob("*.md"), *folder.glob("*.tex"), folder / "table.csv"]:
        path.unlink()
    assert cli.main(words) == 0 and capsys.readouterr().out == before
    path = folder / "table.json"
    path.write_text(path.read_text()[:-20])
    assert cli.main(["table", str(config), *where]) == 2
    error = capsys.readouterr().err
    assert "small/table.json: " in error and error.count("\n") == 1


@pytest.mark.parametrize("overrides", [None, ["lr=0.2"]])
def test_a_variations_table_is_shown_by_its_folder(config, tmp_path, capsys, overrides):
    from expograph.config import load
    from expograph.report.experiment import write_report

    root = tmp_path / "results"
    experiment = load(str(config), ["lr=0.2"])
    sweep(experiment.runs[:2], root, jobs=1)
    write_report(experiment, root, "custom/small/lr=0.2")
    folder = root / "custom" / "small" / "lr=0.2"
    made = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps(made | {"overrides": overrides}))
    capsys.readouterr()
    for name in ("custom/small/lr=0.2", str(folder)):
        assert cli.main(["table", name, "--results", str(root)]) == 0
        out = capsys.readouterr().out
        assert "custom/small/lr=0.2: " in out and "±" in out
        sweep(experiment.runs, root, jobs=1)  # the runs say more than the table now
    assert out.count("±") == (2 if overrides else 1)


def test_a_path_is_never_markup(tmp_path, capsys):
    folder = tmp_path / "run[/old] a[bold]b"
    folder.mkdir(parents=True)
    path = folder / "small.toml"
    path.write_text(CONFIG)
    assert cli.main(["train", str(path), "--jobs", "1", *results_of(folder)]) == 0
    assert "a[bold]b" in capsys.readouterr().out.replace("\n", "")
    assert cli.main(["table", str(path), *results_of(folder)]) == 0
    assert "±" in capsys.readouterr().out


def test_a_pipe_that_closes_early_is_no_error():
    words = f"{sys.executable} -m expograph topology list | head -1"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert "over 16 ranks" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(("where", "status"), [(">&-", 0), ("> /dev/full", 1)])
def test_an_output_that_cannot_be_written_is_silence_or_a_line(where, status):
    words = f"{sys.executable} -m expograph topology list {where}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert done.returncode == status and done.stderr.count("\n") == status
    assert status == 0 or done.stderr.startswith("the output cannot be written: No space left")


# ---- while it runs ----


def events_of(root):
    """{folder: {tag: {step: value}}}, read by TensorBoard's own reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = {}
    for path in (root / tensorboard.FOLDER).iterdir():
        reader = EventAccumulator(str(path))
        reader.Reload()
        tags = reader.Tags()["scalars"]
        found[path.name] = {tag: {e.step: e.value for e in reader.Scalars(tag)} for tag in tags}
    return found


def test_tensorboard_shows_what_the_record_says_live_and_replayed(config, tmp_path):
    from expograph.config import load

    runs = load(str(config)).runs
    live, replayed = tmp_path / "live", tmp_path / "replayed"
    sweep(runs[:1], live, jobs=1, tensorboard=True)
    sweep(runs[:1], replayed, jobs=1)
    assert not (replayed / tensorboard.FOLDER).exists()
    sweep(runs[:1], replayed, jobs=1, tensorboard=True)
    record = store.curve(runs[0], live)
    for root in (live, replayed):
        ((name, tags),) = events_of(root).items()
        assert name.startswith("dsgd_atc-ring-4_nodes-logistic-seed_0-")
        for metric in ("train_loss", "error_workers", "consensus_distance"):
            column = record.set_index("step")[metric].dropna()
            assert list(tags[metric]) == list(column.index)
            assert list(tags[metric].values()) == pytest.approx(list(column), rel=1e-5)


def test_a_board_shows_a_running_sweep_and_goes_with_it(config, tmp_path):
    from expograph.config import load

    runs, root = load(str(config)).runs, tmp_path / "results"
    console = Console(quiet=True)
    with progress.SweepProgress(runs, console, root, [str(config)]) as show:
        show.posted = 0
        show(runs[0], 10)
        (board,) = progress.boards(root)
        assert board["configs"] == [str(config)] and board["count"] == "0 of 4 runs"
        assert board["share"] == pytest.approx(10 / 20 / 4)
        (one,) = board["running"]
        assert (one["step"], one["steps"], one["key"]) == (10, 20, runs[0].key)
    assert progress.boards(root) == []


def test_the_board_of_a_killed_sweep_is_removed(tmp_path):
    folder = tmp_path / progress.BOARDS
    folder.mkdir()
    dead = folder / "dead.json"
    host, namespace, _, start = files.owner().split(".")
    dead.write_text(json.dumps({"owner": f"{host}.{namespace}.999999999.{start}"}))
    other = folder / "other.json"
    other.write_text(json.dumps({"owner": f"elsewhere.{namespace}.1.5"}))
    (folder / "half.json").write_text("{")
    assert [b["owner"].split(".")[0] for b in progress.boards(tmp_path)] == ["elsewhere"]
    assert not dead.exists()
    os.utime(other, (0, 0))
    assert progress.boards(tmp_path) == []


def test_watch_fills_the_table_while_runs_finish(config, tmp_path, capsys, monkeypatch):
    from expograph.config import load

    monkeypatch.setattr(table, "REDRAW", 0.1)
    runs, root = load(str(config)).runs, tmp_path / "results"
    frames = []
    show = table.screens
    monkeypatch.setattr(table, "screens", lambda a, r: frames.append(show(a, r)) or frames[-1])
    with progress.SweepProgress(runs, Console(quiet=True), root, [str(config)]) as sweeping:
        sweeping.posted = 0
        sweeping(runs[0], 5)
        watching = threading.Thread(
            target=cli.main, args=(["table", "--watch", "--results", str(root)],)
        )
        watching.start()
        sweep(runs[:2], root, jobs=1)
        time.sleep(1)
    watching.join(timeout=30)
    assert not watching.is_alive()  # it ends with the sweep
    console = Console(width=120, record=True, quiet=False, file=open(os.devnull, "w"))
    for frame in frames:
        console.print(*frame)
    text = console.export_text()
    assert "0 of 4 runs" in text and "5/20" in text and "ring" in text


def test_watch_without_a_sweep_says_so(tmp_path, capsys):
    assert cli.main(["table", "--watch", *results_of(tmp_path)]) == 1
    assert "no sweep is running" in capsys.readouterr().err


def test_a_log_file_gets_plain_lines_that_name_the_runs(config, tmp_path, monkeypatch):
    from expograph.config import load

    monkeypatch.setattr(progress, "LOG_EVERY", 0.0)
    runs = load(str(config)).runs
    with (
        open(tmp_path / "log", "w") as log,
        progress.SweepProgress(runs, Console(file=log, width=200)) as show,
    ):
        show(runs[0], 10)
        show(runs[0], 20)
    lines = (tmp_path / "log").read_text().splitlines()
    assert "now: dsgd_atc on ring, 4 nodes, logistic, seed 0" in lines[0]
    assert "at step 10 of 20" in lines[0] and "1 of 4 runs" in lines[1]
    assert "\x1b" not in "".join(lines)
