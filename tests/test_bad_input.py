"""Bad input of every kind: one line that names file, key or value and what is allowed; status 2.

Each case is a folder of files, a command line and perhaps environment variables. Nothing may be
written, and nothing trained.
"""

import gzip
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array

from expograph import cli
from expograph.graphs.mixing import Sparse
from expograph.graphs.topology import TOPOLOGIES, Topology

NOTHING = MappingProxyType({})

TINY = """
name = "tiny"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = 10
lr = 0.1
[run.problem]
kind = "logistic"
[[sweep]]
seed = [0, 1]
[table]
title = "Tiny"
rows = ["topology"]
metrics = ["error_workers"]
"""
IMAGES = """
name = "images"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = 10
lr = 0.1
[run.problem]
kind = "classification"
dataset = "digits"
model = "linear"
"""
CLAIM = """
kind = "claims"
[[claim]]
id = "gap"
statement = "The gap is as the formula says."
source = "Prop. 1"
ledger = "paper"
check = "static_gap"
with = { largest = 16, largest_dense = 8 }
"""


class Case(NamedTuple):
    """What is typed, in which folder, and what the line says of it."""

    words: str | list[str]
    said: str
    files: Mapping[str, str | bytes] = NOTHING
    environment: Mapping[str, str] = NOTHING


def edited(old: str, new: str, text: str = TINY) -> dict[str, str]:
    assert text.count(old) == 1, old
    return {"tiny.toml": text.replace(old, new)}


def config(old: str, new: str, said: str) -> Case:
    """A config in which one thing is wrong."""
    return Case("train tiny.toml", said, edited(old, new))


def word(words: str, said: str) -> Case:
    """A command line on a config in which nothing is wrong."""
    return Case(words, said, {"tiny.toml": TINY})


def variable(said: str, words: str = "train tiny.toml", **environment: str) -> Case:
    return Case(words, said, {"tiny.toml": TINY}, environment)


def data(files: dict[str, str | bytes], dataset: str, said: str) -> Case:
    """A data set under data/ that cannot be used."""
    text = IMAGES.replace('"digits"', f'"{dataset}"')
    return Case("train images.toml", said, {"images.toml": text, **files})


def hostfile(content: str | bytes, said: str) -> Case:
    words = "sweep tiny.toml --engine mpi --np 4 --hostfile hosts"
    return Case(words, said, {"tiny.toml": TINY, "hosts": content})


def claim(old: str, new: str, said: str) -> Case:
    return Case("claims --file claims.toml", said, {"claims.toml": CLAIM.replace(old, new)})


CONFIGS = {
    "empty": Case("train tiny.toml", "tiny.toml: name: Field required", {"tiny.toml": ""}),
    "binary": Case("train tiny.toml", "tiny.toml: not valid TOML", {"tiny.toml": b"\xff\xfe\0"}),
    "cut": Case("train tiny.toml", "tiny.toml: not valid TOML", {"tiny.toml": TINY[:40]}),
    "a folder": Case("train tiny.toml", "tiny.toml: Is a directory", {"tiny.toml/a": ""}),
    "huge": Case("train tiny.toml", "is larger than", {"tiny.toml": "#" * (2**20 + 1)}),
    "twice the key": config("nodes = 4", "nodes = 4\nnodes = 8", "not valid TOML"),
    "another kind": config('name = "tiny"', 'kind = "claims"\nname = "tiny"', "kind: expected"),
    "no run": Case("train tiny.toml", "tiny.toml: run: Field required", {"tiny.toml": 'name="a"'}),
    "name a path": config('name = "tiny"', 'name = "../tiny"', "tiny.toml: name: "),
    "name reserved": config('name = "tiny"', 'name = "runs"', "name: 'runs' is taken"),
    "name of all letters": config('name = "tiny"', 'name = "Tiny"', "tiny.toml: name: "),
    "name too long": config('name = "tiny"', f'name = "{"a" * 101}"', "tiny.toml: name: "),
    "misspelt key": config("topology =", "topolgy =", "run.topolgy: unknown key; did you mean"),
    "key at the top": config('name = "tiny"', 'name = "tiny"\nlr = 1', "did you mean run.lr?"),
    "unknown topology": config('"ring"', '"rnig"', "run.topology: unknown topology 'rnig'; did"),
    "topology's parameter": config('"ring"', '"ring(k=2)"', "'ring' has no parameters, got 'k'"),
    "topology's choice": config(
        '"ring"', '"one_peer_exponential(order=best)"', "run.topology: unknown order of"
    ),
    "topology a list": config('"ring"', '["ring"]', "run.topology: Input should be a valid string"),
    "unknown algorithm": config('"dsgd_atc"', '"dsgd"', "run.algorithm: unknown algorithm 'dsgd'"),
    "unknown problem": config('"logistic"', '"logit"', "run.problem: "),
    "problem a word": config(
        '[run.problem]\nkind = "logistic"', 'problem = "logistic"', "tiny.toml: "
    ),
    "another problem's key": config(
        'kind = "logistic"', 'kind = "logistic"\nmodel = "cnn"', "a logistic problem has no such"
    ),
    "no nodes": config("nodes = 4\n", "", "run.nodes: Field required"),
    "nodes 0": config("nodes = 4", "nodes = 0", "run.nodes: Input should be greater than"),
    "nodes text": config("nodes = 4", 'nodes = "4"', "run.nodes: Input should be a valid integer"),
    "nodes half": config("nodes = 4", "nodes = 4.5", "run.nodes: "),
    "a billion nodes": config("nodes = 4", "nodes = 1_000_000_000", "run.nodes: "),
    "too many ranks": config("nodes = 4", "nodes = 65536\nlocal_size = 65536", "at most 1048576"),
    "lr text": config("lr = 0.1", 'lr = "1e-3"', "run.lr: Input should be a valid number"),
    "lr nan": config("lr = 0.1", "lr = nan", "run.lr: Input should be a finite number"),
    "lr negative": config("lr = 0.1", "lr = -0.1", "run.lr: Input should be greater than 0"),
    "lr true": config("lr = 0.1", "lr = true", "run.lr: "),
    "steps 0": config("steps = 10", "steps = 0", "run.steps: "),
    "steps beyond any use": config("steps = 10", "steps = 10_000_000_000", "run.steps: "),
    "seed negative": config("seed = [0, 1]", "seed = [-1]", "run.seed: "),
    "momentum of none": config("lr = 0.1", "lr = 0.1\nbeta = 0.9", "has no momentum: beta must"),
    "beta 1": config("lr = 0.1", "lr = 0.1\nbeta = 1.0", "run.beta: Input should be less than 1"),
    "exact on a ring": config('"dsgd_atc"', '"psgd"', "topology must be fully_connected"),
    "evaluation between": config("lr = 0.1", "lr = 0.1\nevaluate_every = 15", "must be a multiple"),
    "warm-up too long": config("lr = 0.1", "lr = 0.1\nwarmup_steps = 10", "must be smaller"),
    "decay without steps": config("lr = 0.1", 'lr = 0.1\ndecay = "step"', "needs decay_steps"),
    "engine unknown": config("lr = 0.1", 'lr = 0.1\nengine = "blufog"', "did you mean 'bluefog'?"),
    "device unknown": config("lr = 0.1", 'lr = 0.1\ndevice = "tpu"', "run.device: "),
    "sweep of nothing": config("seed = [0, 1]", "seed = []", "sweep.seed: an empty list"),
    "sweep of a number": config("seed = [0, 1]", "seed = 3", "sweep.0.seed: "),
    "sweep of unlike": config(
        "seed = [0, 1]", '"seed, steps" = [[0, 10], [1]]', "expected 2 values, got [1]"
    ),
    "sweep twice": config("seed = [0, 1]", '"seed, lr" = [[0, 0.1]]\nlr = [0.1]', "given twice"),
    "sweep of millions": config(
        "seed = [0, 1]", f"seed = {list(range(400))}\nsteps = {list(range(1, 400))}", "more than"
    ),
    "no metric": config('["error_workers"]', '["error"]', "table.metrics"),
    "metric of another": config('["error_workers"]', '["map_50"]', "table.metrics"),
    "title of lines": config('title = "Tiny"', 'title = """a\nb"""', "expected one line of text"),
    "title with a bell": config('title = "Tiny"', 'title = "a\\u0007"', "expected one line"),
    "rows of no key": config('["topology"]', '["topolgy"]', "table.rows"),
    "no such tuning": config('name = "tiny"', 'name = "tiny"\nstep_sizes = "x"\n', "step_sizes"),
}
CONFIGS["no such tuning"] = Case(
    "train tiny.toml",
    "step_sizes.toml: No such file",
    {"tiny.toml": TINY.replace("lr = 0.1\n", "").replace("[run]", 'step_sizes = "x"\n[run]', 1)},
)

COMMANDS = {
    "no config": word("train", "CONFIG.toml"),
    "a missing config": word("train tiny2.toml", "tiny2.toml: No such file"),
    "no config but words": word("train nodes=4", "expected a config file"),
    "override misspelt": word("train tiny.toml topolgy=ring", "did you mean run.topology?"),
    "override without value": word("train tiny.toml lr=", "run.lr: "),
    "override of text": word("train tiny.toml lr=small", "run.lr: "),
    "override of a word": word("train tiny.toml fast", "override 'fast': expected key=value"),
    "override of nothing": word("train tiny.toml seed=[]", "an empty list sweeps nothing"),
    "override twice": word("train tiny.toml lr=0.1 lr=0.2", "lr is given twice"),
    "override into no table": word("train tiny.toml lr.a=1", "lr"),
    "one name twice": Case(
        "train tiny.toml b.toml", "b.toml: name: 'tiny'", {"tiny.toml": TINY, "b.toml": TINY}
    ),
    "jobs 0": word("train tiny.toml --jobs 0", "--jobs 0: needs at least 1"),
    "jobs text": word("train tiny.toml --jobs two", "--jobs: invalid int value: 'two'"),
    "seeds 0": word("train tiny.toml --seeds 0 --tables mine", "--seeds 0: needs at least 1"),
    "seeds into results": word("train tiny.toml --seeds 1", "give --tables FOLDER"),
    "no results": Case(["train", "tiny.toml", "--results", ""], "--results", {"tiny.toml": TINY}),
    "no tables": Case(["train", "tiny.toml", "--tables", " "], "--tables", {"tiny.toml": TINY}),
    "results a file": Case(
        "train tiny.toml --results a", "a: results cannot be written", {"tiny.toml": TINY, "a": ""}
    ),
    "tables in a file": Case("train tiny.toml --tables a/b", "a/b", {"tiny.toml": TINY, "a": ""}),
    "np without engine": word("sweep tiny.toml --np 4", "--np 4: is for jobs of ranks"),
    "engine without np": word("sweep tiny.toml --engine mpi", "give --np"),
    "np too small": word("sweep tiny.toml --engine mpi --np 2", "--np 2: the smallest run has 4"),
    "np 0": word("sweep tiny.toml --engine mpi --np 0", "--np 0"),
    "engine unknown": word("sweep tiny.toml --engine blufog", "invalid choice: 'blufog'"),
    "no hostfile": word("sweep tiny.toml --engine mpi --np 4 --hostfile no", "no: No such file"),
    "a rank alone": word("train tiny.toml engine=mpi", "engine mpi needs nodes x local_size ranks"),
    "no command": word("trian tiny.toml", "invalid choice: 'trian'"),
    "unknown option": word("train tiny.toml --sedes 3", "unrecognized arguments: --sedes"),
    "tune with words": word("tune tiny.toml lr=1", "lr=1: tune takes configs alone"),
    "tune no grid": word("tune tiny.toml", "is no grid of step sizes"),
    "table which": word("table", "table: which?"),
    "table unknown": word("table tabel", "configs/tabel.toml: No such file"),
    "table of none": word("table tiny.toml --format csv", "table.json is not there"),
    "figure unknown": word("figure transient", "did you mean 'transients'?"),
    "verify nothing": word("verify", "results/mine: no such folder"),
    "verify itself": Case("verify --results a --against a", "--results a: is", {"a/b": ""}),
    "run no key": word("run xyz", "not a key: up to 16 of the digits 0-9 and a-f"),
    "run empty key": Case(["run", ""], "not a key", {"tiny.toml": TINY}),
    "run unknown": word("run 0123", "no run has such a key"),
    "report elsewhere": word("report", "no configs/ here"),
    "report into a file": Case("report --output a", "a: ", {"a": "", "configs/tiny.toml": TINY}),
    "topology which": word("topology show", "topology show: which?"),
    "topology unknown": word("topology show rong", "did you mean 'ring'?"),
    "topology no nodes": word("topology show ring --nodes 0", "--nodes 0: needs at least 1"),
    "topology too large": word("topology show ring --nodes 1000000000", "--nodes 1000000000"),
    "topology's seed": word("topology show ring --seed -1", "--seed -1"),
    "topology no steps": word("topology show ring --steps 0", "--steps 0: needs at least 1"),
    "topology in a folder": Case("topology show ring --output a.png", "a.png", {"a.png/b": ""}),
    "topology in a text": word("topology show ring --output a.txt", "must end in .png, .svg"),
    "topology nowhere": word("topology show ring --output no/a.png", "no folder no"),
    "predict no transients": word("predict tiny.toml", "only transients are predicted"),
    "equivalent of nothing": word("equivalent check", "`check` takes one"),
    "equivalent missing": word("equivalent check a.json", "a.json"),
    "equivalent other": Case("equivalent check a.json", "a.json: ", {"a.json": "{}"}),
    "doctor no ranks": word("doctor --ranks 0", "need a whole number above 0"),
    "completion of no shell": word("completion fish9", "invalid choice: 'fish9'"),
}

ENVIRONMENT = {
    "time limit inf": variable("EXPOGRAPH_TIMEOUT=inf: need", EXPOGRAPH_TIMEOUT="inf"),
    "time limit of a job": variable(
        "EXPOGRAPH_TIMEOUT=²: need", "sweep tiny.toml --engine mpi --np 4", EXPOGRAPH_TIMEOUT="²"
    ),
    "time limit text": variable("EXPOGRAPH_TIMEOUT=5m: need", EXPOGRAPH_TIMEOUT="5m"),
    "time limit 0": variable("EXPOGRAPH_TIMEOUT=0: need", EXPOGRAPH_TIMEOUT="0"),
    "ranks of one process": variable("4 ranks were launched", PMI_SIZE="4", PMI_RANK="0"),
    "ranks of none": variable(
        "this job has 2", "train tiny.toml engine=mpi", PMI_SIZE="2", PMI_RANK="0"
    ),
    "runs in a file": variable("tiny.toml: results cannot", EXPOGRAPH_RUNS="tiny.toml"),
    "runs nowhere": variable("/proc/no: results cannot be written", EXPOGRAPH_RUNS="/proc/no"),
    "loaders text": variable("EXPOGRAPH_LOADERS=many", EXPOGRAPH_LOADERS="many"),
    "loaders 0": variable("EXPOGRAPH_LOADERS=0", EXPOGRAPH_LOADERS="0"),
    "data in a file": Case(
        "train images.toml",
        "tiny.toml",
        {"images.toml": IMAGES.replace('"digits"', '"imagenet"'), "tiny.toml": ""},
        {"EXPOGRAPH_DATA": "tiny.toml"},
    ),
}

FASHION = "data/fashion_mnist/"
NAMES = [f"{p}-{k}-ubyte.gz" for p in ("train", "t10k") for k in ("images-idx3", "labels-idx1")]
WHOLE = {FASHION + name: gzip.compress(b"\0\0\x08\1\0\0\0\1\0") for name in NAMES}
JPEG = "data/imagenet/{}/{}/a.JPEG"
DATA = {
    "checksum": data(WHOLE, "fashion_mnist", "its content has SHA-256"),
    "truncated": data(
        WHOLE | {FASHION + NAMES[0]: gzip.compress(os.urandom(999))[:200]},
        "fashion_mnist",
        f"{NAMES[0]} can't be decompressed",
    ),
    "no gzip": data(
        WHOLE | {FASHION + NAMES[0]: b"<html>404</html>"}, "fashion_mnist", "can't be decompressed"
    ),
    "imagenet absent": data({}, "imagenet", "ImageNet can't be had: it is expected as"),
    "imagenet empty": data({"data/imagenet/train/a/b": ""}, "imagenet", "ImageNet can't be had"),
    "imagenet's classes": data(
        {JPEG.format("train", "n1"): b"", JPEG.format("val", "n2"): b""},
        "imagenet",
        "train and val differ in 2 classes",
    ),
    "unknown": data({}, "fashion", "run.problem.dataset: "),
    "more workers than samples": Case(
        "train images.toml nodes=2000",
        "nodes: 2000 workers cannot share 1438",
        {"images.toml": IMAGES},
    ),
    "held out too many": Case(
        "train images.toml problem.held_out=1438", "held_out", {"images.toml": IMAGES}
    ),
    "boxes in a network of labels": data({}, "voc", "run.problem"),
    "alpha without dirichlet": Case(
        "train images.toml problem.alpha=0.1", "alpha", {"images.toml": IMAGES}
    ),
    "voc absent": Case(
        "train scenes.toml",
        "VOC can't be had",
        {
            "scenes.toml": IMAGES.replace('"classification"', '"detection"')
            .replace('"digits"', '"voc"')
            .replace('"linear"', '"retinanet_resnet50_fpn"')
        },
    ),
}

HOSTFILES = {
    "empty": hostfile("", "hosts: lists no host"),
    "comments only": hostfile("# nobody\n\n", "hosts: lists no host"),
    "slots text": hostfile("here slots=two\n", "hosts, line 1: slots=two"),
    "slots 0": hostfile("here slots=0\n", "hosts, line 1: slots=0"),
    "another key": hostfile("a slots=1\nhere cores=2\n", "hosts, line 2: cores=2"),
    "a host twice": hostfile("a slots=2\nb slots=1\na slots=2\n", "hosts, line 3: a is listed"),
    "binary": hostfile(b"\xff\xfe\0", "hosts: not a text file"),
    "an option": hostfile("--version slots=4\n", "hosts, line 1: --version"),
    "too few slots": hostfile("localhost slots=2\n", "hosts: 2 slots"),
}

CLAIMS = {
    "no file": word("claims --file no.toml", "no.toml: No such file"),
    "no claim": claim(CLAIM, 'kind = "claims"', "claim"),
    "no check": claim('"static_gap"', '"gap"', "claim gap: check: unknown check 'gap'"),
    "argument of none": claim("largest =", "larges =", "with.larges: unknown key; did you mean"),
    "argument of another": claim("largest =", "sizes =", "with.sizes: unknown key; known: "),
    "largest 0": claim("largest = 16", "largest = 0", "claim gap: with.largest: Input should be"),
    "largest of all": claim("largest = 16", "largest = 10000000", "claim gap: with.largest: "),
    "largest inf": claim("largest = 16", "largest = inf", "claim gap: with.largest: "),
    "largest text": claim("largest = 16", 'largest = "16"', "claim gap: with.largest: "),
    "two of one id": claim(CLAIM, CLAIM + CLAIM[CLAIM.index("[[") :], "claim gap: "),
}

FOLDER = json.dumps({"config": "other.toml", "overrides": []})
RESULTS = {
    "another's folder": Case(
        "train tiny.toml",
        "results/tiny belongs to other.toml; take another name",
        {"tiny.toml": TINY, "other.toml": "", "results/tiny/provenance.json": FOLDER},
    ),
    "records cut": Case(
        "train tiny.toml --continue",
        "results/tiny/records.jsonl.gz: damaged",
        {"tiny.toml": TINY, "results/tiny/records.jsonl.gz": gzip.compress(b"a" * 99)[:20]},
    ),
    "equivalents cut": Case(
        "train tiny.toml",
        "results/equivalent.json: ",
        {"tiny.toml": TINY, "results/equivalent.json": '{"checks": ['},
    ),
    "table cut": Case(
        "table tiny", "results/tiny/table.json: ", {"results/tiny/table.json": '{"title": "a"'}
    ),
    "table a list": Case(
        "table tiny", "results/tiny/table.json", {"results/tiny/table.json": "[]"}
    ),
    "table binary": Case(
        "table tiny", "table.json: not a text file", {"results/tiny/table.json": b"\xff\xfe"}
    ),
    "ledger cut": Case(
        "claims --file claims.toml",
        "results/claims.json: ",
        {"claims.toml": CLAIM, "results/claims.json": "{"},
    ),
    "summary binary": Case(
        "run 01", "a/runs.csv: not a text file", {"results/a/runs.csv": b"\xff"}
    ),
    "curves cut": Case(
        "figure table1_curves", "curves.csv: ", {"results/table1/curves.csv": "step,topolo"}
    ),
}

GROUPS = {
    "config": CONFIGS,
    "command": COMMANDS,
    "environment": ENVIRONMENT,
    "data": DATA,
    "hostfile": HOSTFILES,
    "claims": CLAIMS,
    "results": RESULTS,
}
CASES = {f"{group}: {id}": case for group, cases in GROUPS.items() for id, case in cases.items()}


class Deaf(Sparse):
    """Rank 1 waits for rank 0, which sends to rank 2."""

    def destinations(self, rank: int) -> list[int]:
        return [2] if rank == 0 else super().destinations(rank)


def matrix(*rows: list[float], form: type[Sparse] = Sparse) -> Callable[[int], Topology]:
    """A topology function of one matrix, as a user's own."""
    W = form(csr_array(np.array(rows, dtype=float)))
    return lambda n: Topology("mine", n, 1, lambda k: W)


def many(n: int) -> Topology:
    """A pair averages at each step, and ranks 2 and 3 are in no pair."""
    W = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    return Topology("mine", n, 3, lambda k: Sparse(csr_array(np.roll(W, 0, axis=k % 2))))


MATRICES = {
    "negative weight": (
        matrix([1.5, -0.5, 0, 0], [-0.5, 1.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]),
        "mine, step 0: a weight is negative",
    ),
    "row sum": (
        matrix([0.5, 0.4, 0, 0], [0.5, 0.6, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]),
        "step 0: the weights that rank 1 takes in sum to 1.1",
    ),
    "column sum": (
        matrix([0.5, 0.5, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]),
        "the weights that rank 0 gives sum to 1.5; the algorithm needs doubly stochastic",
    ),
    "empty row": (
        matrix([0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]),
        "the weights that rank 2 takes in sum to 0",
    ),
    "no number": (
        matrix([math.nan, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]),
        "step 0: a weight is not finite",
    ),
    "of other ranks": (matrix([0.5, 0.5], [0.5, 0.5]), "of shape (2, 2); 4 ranks need (4, 4)"),
    "not square": (
        matrix([0.5, 0.5], [0.5, 0.5], [1, 0], [0, 1]),
        "of shape (4, 2); 4 ranks need (4, 4)",
    ),
    "receiver without sender": (
        matrix([0.5, 0, 0, 0.5], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], form=Deaf),
        "mine, step 0: rank 0 does not send to rank 1, which expects it",
    ),
    "disconnected": (
        matrix([0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]),
        "mine: 2 groups of ranks never hear each other, as ranks 0 and 2",
    ),
    "disconnected over a period": (many, "mine: 3 groups of ranks never hear each other"),
}


@pytest.mark.parametrize("id", MATRICES)
def test_a_graph_of_the_users_own_is_checked_before_training(id, tmp_path, monkeypatch, capsys):
    function, said = MATRICES[id]
    monkeypatch.setitem(TOPOLOGIES, "mine", function)
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY.replace('"ring"', '"mine"'))
    assert cli.main(["train", "tiny.toml"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1, error
    assert list(everything(tmp_path)) == ["tiny.toml"]


def everything(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("id", CASES)
def test_bad_input_is_one_line_and_status_2(id, tmp_path, monkeypatch, capsys):
    words, said, files, environment = CASES[id]
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    for name in ("EXPOGRAPH_DATA", "EXPOGRAPH_RUNS", "EXPOGRAPH_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    before = everything(tmp_path)
    try:
        status = cli.main(words.split() if isinstance(words, str) else words)
    except SystemExit as exit:  # argparse's way: the line comes after the usage
        status = exit.code
    captured = capsys.readouterr()
    error = captured.err
    assert status == 2, (status, captured)
    assert said in error, error
    assert "Traceback" not in error
    assert error.startswith("usage:") or error.count("\n") == 1, error
    assert everything(tmp_path) == before


def test_the_table_is_long():
    assert len(CASES) >= 140
