"""Changed code that gives the older code's numbers: measured, entered, and what follows from it."""

import json

import pytest

from expograph import cli
from expograph.config import Run, load
from expograph.engines import ENGINES
from expograph.files import DamagedFile
from expograph.runs import equivalents, reference, results, store
from expograph.runs.equivalents import Check, classes
from expograph.runs.fingerprint import fingerprint, modules
from expograph.runs.pool import sweep
from expograph.runs.reference import EARLY, compare, kinds, measure, pairs, shortened
from expograph.runs.runner import execute
from expograph.runs.selection import Policy, plan

CONFIG = """
name = "small"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = 1000
lr = 0.1
[run.problem]
kind = "logistic"
[[sweep]]
topology = ["ring", "star"]
seed = [0, 1]
[[sweep]]
algorithm = ["psgd"]
topology = ["fully_connected"]
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder of one config; short runs are done in this process."""
    monkeypatch.setattr(
        reference,
        "measure_all",
        lambda runs, nudges=(0,): (measure(r, k) for r in runs for k in nudges),
    )
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "small.toml").write_text(CONFIG)
    (configs / "published.toml").write_text('kind = "published"\n[numbers]\n')
    words = ["--configs", str(configs), "--results", str(tmp_path / "results")]
    assert cli.main(["equivalent", "record", *words]) == 0
    (path,) = (tmp_path / "results" / "equivalent").iterdir()
    return path


def changed(path, change):
    """The file of older code, of which `change` says what it gave."""
    content = json.loads(path.read_text())
    for one in (*content["kinds"], *content["measured"]):
        one["code"] = "older"
    content["code"] = "older"
    content["modules"]["expograph.graphs.mixing"] = "was another"
    change(content)
    path.write_text(json.dumps(content))
    return path


def check(path):
    root = path.parents[1]
    return cli.main(["equivalent", "check", str(path), "--results", str(root)])


def test_the_same_code_has_nothing_to_enter(small, capsys):
    content = json.loads(small.read_text())
    assert small.stem == content["code"] == fingerprint() and small.stat().st_size < 20_000
    words = {one["run"]["topology"] for one in content["measured"]}
    assert words == {"ring", "star", "fully_connected"} and len(content["measured"]) == 3
    assert check(small) == 0
    out = capsys.readouterr().out
    assert out.count("equal: ") == 3 and "nothing to enter" in out
    assert not (small.parents[1] / equivalents.FILE).exists()


def test_equal_numbers_make_older_runs_usable_and_the_output_is_kept(small, capsys):
    root = small.parents[1]
    run = load(small.parents[2] / "configs" / "small.toml").runs[0]
    execute(run.model_copy(update={"steps": 20}), root)
    short = run.model_copy(update={"steps": 20})
    path = store.folder(short, root) / "run.json"
    path.write_text(path.read_text().replace(fingerprint(run), "older"))
    assert plan([short], root).stale == [short]
    assert plan([short], root, Policy(keep_stale=True)).kept == [short]
    assert check(changed(small, lambda content: None)) == 0
    assert plan([short], root).reused == [short] and plan([short], root).todo == []
    found = results.find([short], root)
    assert equivalents.stale([short], found, root) == []
    (entry,) = equivalents.read(root)
    assert ("older", fingerprint(run)) in entry.pairs and entry.made["older"] == "older"
    assert len(entry.output) == 3 and all(line.startswith("equal: ") for line in entry.output)


@pytest.mark.parametrize(
    ("name", "factor", "status"),
    [("train_loss", 1 + 5e-6, 0), ("train_loss", 1 + 2e-5, 1), ("consensus_distance", 1.01, 1)],
)
def test_other_numbers_are_refused_with_the_differences(small, name, factor, status, capsys):
    def change(content):
        (one,) = (m for m in content["measured"] if m["run"]["topology"] == "star")
        one["metrics"][name] *= factor

    assert check(changed(small, change)) == status
    captured = capsys.readouterr()
    assert (small.parents[1] / equivalents.FILE).exists() == (status == 0)
    if status:
        assert "differs: dsgd_atc on star" in captured.out and f"  {name}: " in captured.out
        assert "nothing was entered" in captured.err


def test_a_run_that_means_something_else_now_is_not_compared(small, monkeypatch, capsys):
    """Its key is another one, so that no run of the older code is taken for it."""

    def change(content):
        for one in content["measured"]:
            if one["run"]["topology"] == "star":
                one["metrics"]["train_loss"] *= 2
                one["run"]["algorithm"] = "dmsgd"
        del content["schema"]  # as files were before a meaning changed

    path = changed(small, change)
    assert check(path) == 0
    out = capsys.readouterr().out
    assert "not compared, means something else now: dmsgd on star" in out
    assert out.count("equal: ") == 2


def test_parameters_are_compared_in_directions_that_norms_do_not_see():
    """A rotation by 1e-4 keeps the norm; projections see it, those of 1e-6 are allowed."""
    run = shortened(Run.model_validate(json.loads(json.dumps(RUN))))
    old = measure(run)
    assert [d for d in compare(old, measure(run)) if not d.equal] == []
    for shift, equal in ((1e-6, True), (1e-4, False)):
        moved = [[p + shift * n for p in ps]
                 for ps, n in zip(old.projections, old.norms, strict=True)]  # fmt: skip
        last = compare(old, old.model_copy(update={"projections": moved}))[-1]
        assert last.what.startswith(f"parameters after {EARLY} steps") and last.equal == equal


RUN = {
    "problem": {"kind": "classification", "dataset": "digits", "model": "linear"},
    "topology": "ring",
    "nodes": 4,
    "algorithm": "dsgd_atc",
    "steps": 500,
    "lr": 0.1,
    "warmup_steps": 50,
}


@pytest.mark.parametrize(("apart", "equal"), [(0.04, True), (0.06, False)])
def test_accuracies_may_be_a_twentieth_of_a_point_apart(apart, equal):
    old = measure(shortened(Run.model_validate(RUN)))
    metrics = old.metrics | {"accuracy_averaged": old.metrics["accuracy_averaged"] + apart}
    found = compare(old, old.model_copy(update={"metrics": metrics}))
    assert all(d.equal for d in found) == equal


def test_rounding_of_equal_models_is_no_consensus_distance():
    old = measure(shortened(Run.model_validate(RUN)))
    a, b = (old.model_copy(update={"metrics": {"consensus_distance": v}}) for v in (1e-15, 3e-15))
    assert all(d.equal for d in compare(a, b))


def test_only_what_the_short_runs_use_is_vouched_for():
    """A module that changed and that no short run uses keeps the runs that use it stale."""
    digits = Run.model_validate(RUN)
    other = Run.model_validate(RUN | {"problem": RUN["problem"] | {"dataset": "fashion_mnist"}})
    used = modules(digits) | modules(other)
    one = measure(shortened(digits)).model_copy(update={"code": "older"})
    entries = [reference.Kind(run=r.model_dump(), code=c) for r, c in ((digits, "a"), (other, "b"))]

    def found(*names):
        changes = {f"expograph.{name}": "was another" for name in names}
        return pairs(
            reference.Reference(
                code="older", made={}, modules=used | changes, kinds=entries, measured=[one]
            )
        )

    both = [("a", fingerprint(digits)), ("b", fingerprint(other))]
    assert found("graphs.mixing") == (both, {})
    entered, uncovered = found("graphs.mixing", "data.fashion_mnist")
    assert entered == both[:1]
    assert list(uncovered.values()) == [["expograph.data.fashion_mnist"]]


def test_every_kind_of_run_of_a_config_is_known(tmp_path):
    (tmp_path / "small.toml").write_text(CONFIG)
    experiment = load(tmp_path / "small.toml")
    codes = {kind.code for kind in kinds([experiment], ENGINES)}
    assert {fingerprint(run) for run in experiment.runs} <= codes


def test_equivalence_is_transitive_and_symmetric():
    checks = [
        Check(pairs=pairs, made={}, output=[])
        for pairs in ([("a", "b"), ("x", "y")], [("c", "d")], [("d", "b")])
    ]
    standing = classes(checks)
    assert len({standing[code] for code in "abcd"}) == 1
    assert standing["x"] == standing["y"] != standing["a"]


def test_a_damaged_list_is_one_line(tmp_path, capsys):
    (tmp_path / equivalents.FILE).write_text('{"checks": [{"pairs": 3}]}')
    with pytest.raises(DamagedFile, match=r"equivalent.json: checks\.0\.pairs"):
        sweep([], tmp_path)
    assert cli.main(["equivalent", "check", "nowhere.json", "--results", str(tmp_path)]) == 2
    assert cli.main(["equivalent", "check", "--results", str(tmp_path)]) == 2
    assert "nowhere.json: No such file" in capsys.readouterr().err
