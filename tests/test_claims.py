"""The ledger: verdicts follow the parts, checks tell true from false, bad files are one line."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from expograph import claims
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables, save
from expograph.claims import (
    Claim,
    Finding,
    NotMeasured,
    Part,
    accuracy,
    evidence,
    mathematics,
    time,
)
from expograph.claims import transients as iterations
from expograph.claims.arguments import declared
from expograph.claims.outcome import between, every
from expograph.config import ConfigError
from expograph.files import DamagedFile

ROOT = Path("results")


def claim(**changes) -> Claim:
    return Claim.model_validate(
        {"id": "a", "statement": "s", "source": "o", "check": "rates"} | changes
    )


@pytest.mark.parametrize(
    "holds, verdict",
    [
        (["yes", "yes"], "reproduced"),
        (["yes", "no"], "partly"),
        (["yes", "undecided"], "partly"),
        (["yes", "not measured"], "partly"),
        (["no", "no"], "not reproduced"),
        (["no", "undecided", "not measured"], "not reproduced"),
        (["undecided", "not measured"], "undecided"),
        (["not measured", "not measured"], "not measured"),
    ],
)
def test_the_verdict_follows_the_parts(holds, verdict):
    assert Finding.of(claim(), [Part("i", "p", h, "e") for h in holds]).verdict == verdict


def test_more_noise_helps_no_claim():
    """A wide interval decides nothing, whatever is claimed of it."""
    assert between(1, 2, most=3) == "yes" and between(1, 2, lowest=3) == "no"
    assert between(4, 5, most=3) == "no" and between(1, 2, 0, 3) == "yes"
    for sides in ({"most": 3}, {"lowest": 3}, {"lowest": 2, "most": 4}):
        assert between(-100, 100, **sides) == "undecided"
    assert every([]) == "not measured"
    assert every(["yes", "undecided"]) == "undecided"
    assert every(["yes", "undecided", "no"]) == "no"
    parts = [Part(f"{i}", "p", holds, "e") for i, holds in enumerate(("yes", "yes", "no"))]
    assert Finding.of(claim(), parts).counts == "2 yes, 1 no"


def test_the_committed_claims_load_and_each_has_a_check_and_a_source():
    stated = claims.read(Path("configs/claims.toml"))
    assert len(stated) >= 10
    for config in claims.experiments(stated):
        assert Path(config).exists()
    assert all(c.source for c in stated)


@pytest.mark.parametrize(
    "text, line",
    [
        ("[[claim]]\nid = 'a'\n", "claim a: statement: Field required"),
        ("[[claim]]\nid='a'\nstatement=''\nsource=''\ncheck='rats'\n", "did you mean 'rates'"),
        (
            "[[claim]]\nid='a'\nstatement=''\nsource=''\ncheck='rates'\nwiht={}\n",
            "claim a: wiht: unknown key",
        ),
        ("claim = 3", "no \\[\\[claim\\]\\] in it"),
        ("claim = [3]", "claim number 1: "),
        ("", r"no \[\[claim\]\] in it"),
        ("[[claim]", "not valid TOML"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, text, line):
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=line) as error:
        claims.read(path)
    assert "\n" not in str(error.value)


def stated(path: Path, check: str, arguments: dict) -> Path:
    """A file with one claim."""
    words = ", ".join(f"{key} = {toml(value)}" for key, value in arguments.items())
    head = '[[claim]]\nid = "a"\nstatement = "s"\nsource = "o"\n'
    path.write_text(f'{head}check = "{check}"\nwith = {{ {words} }}\n', encoding="utf-8")
    return path


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value) if isinstance(value, float) else json.dumps(value)


COMMITTED = tomllib.loads(Path("configs/claims.toml").read_text())["claim"]
FLOATS = [True, "x", [1.0], {}, -1.0, 1e9, float("inf"), float("nan")]
INTS = [True, "x", 2.5, [4], {}, -1, 0, 10**30, float("inf"), float("nan")]
WRONG = {
    int: INTS,
    float: FLOATS,
    str: [True, 3, [], {}, "", "nowhere", "configs/nowhere.toml", "../\u0000"],
    list: [True, 3, "ring", {}, [True], [[]], ["nowhere"], [-1], [10**30], [float("nan")]],
    dict: [True, 3, "x", [], {}, {"x": 0.1}, {"1": 0.1}, {"6": float("nan")}, {"6": "0.1"}],
}
FOLDERS = {"engines", "hours", "measured"}  # that a folder is not there is no mistake


@pytest.mark.parametrize(
    ("check", "arguments", "key"),
    [(c["check"], c["with"], key) for c in COMMITTED for key in c["with"]],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_wrong_argument_is_one_line_that_names_file_claim_and_key(
    tmp_path, check, arguments, key
):
    for wrong in WRONG[type(arguments[key])]:
        if key in FOLDERS and wrong in ("nowhere", "configs/nowhere.toml", ["nowhere"]):
            continue
        path = stated(tmp_path / "claims.toml", check, {**arguments, key: wrong})
        with pytest.raises(ConfigError) as error:
            claims.read(path)
        line = str(error.value)
        assert line.startswith(f"{path}: claim a: with.{key}") and "\n" not in line, line
        assert len(line) < 500


def test_a_missing_a_misspelt_and_an_unfit_argument_are_one_line(tmp_path):
    path = tmp_path / "claims.toml"
    good = {"algorithms": ["dmsgd"], "beta": 0.9, "within": 0.05}
    assert claims.read(stated(path, "stability", good))
    for arguments, line in (
        ({**good, "betta": 0.9}, "with.betta: unknown key; did you mean beta"),
        ({k: v for k, v in good.items() if k != "beta"}, "with.beta: Field required"),
        ({**good, "algorithms": []}, "with.algorithms: List should have at least 1 item"),
        ({**good, "algorithms": ["dmsdg"]}, "with.algorithms.0: .*did you mean 'dmsgd'"),
    ):
        with pytest.raises(ConfigError, match=line):
            claims.read(stated(path, "stability", arguments))
    for check, config in (("rates", "configs/iid.toml"), ("momentum", "configs/transients.toml")):
        with pytest.raises(ConfigError, match=r"with\.config: .* has no table of"):
            arguments = {"partition": "iid", "margin": 1.0, "better": ["dmsgd"], "alike": []}
            extra = arguments if check == "momentum" else {}
            claims.read(stated(path, check, {"config": config, **extra}))


def test_a_partly_empty_comparison_is_fine_and_an_empty_one_is_not_measured(monkeypatch):
    monkeypatch.setattr(evidence, "finished", lambda root, config: (None, summary(ring=1.0)))
    parts = accuracy.momentum(ROOT, "", "iid", 1.0, better=[], alike=[])
    assert Finding.of(claim(), parts).verdict == "not measured"


def test_every_check_declares_all_that_its_claims_give():
    for stated_claim in COMMITTED:
        model = declared(claims.CHECKS[stated_claim["check"]])
        assert set(model.model_fields) == set(stated_claim["with"])


def test_missing_evidence_is_a_verdict(tmp_path):
    finding = claims.measure(claim(**{"with": {"config": "configs/transients.toml"}}), tmp_path)
    assert finding.verdict == "not measured"
    assert "runs of configs/transients.toml are missing" in finding.parts[0].evidence


# ---- the ledger ----


def finding(holds: str, made: dict | None = None, **changes) -> Finding:
    made_of = Finding.of(claim(**changes), [Part("p", "text", holds, "1 %", ("key",))])
    return made_of.model_copy(update={"made": made})


def test_what_is_measured_is_kept_where_its_evidence_is_not_here():
    old = claims.Ledger(claims=[finding("yes")], made={"code": "old"})
    (new,), kept = claims.kept([finding("not measured", statement="in other words")], old)
    assert kept == ["a"] and new.verdict == "reproduced"
    assert new.statement == "in other words" and new.made == {"code": "old"}
    again, kept = claims.kept([finding("not measured")], claims.Ledger(claims=[new], made={}))
    assert kept == ["a"] and again[0].made == {"code": "old"}  # not the last writer's


def test_what_is_measured_again_or_is_another_claim_replaces_what_was_kept():
    old = claims.Ledger(claims=[finding("yes")], made={"code": "old"})
    assert claims.kept([finding("no")], old) == ([finding("no")], [])
    other = finding("not measured", **{"with": {"config": "configs/transients.toml"}})
    assert claims.kept([other], old) == ([other], [])
    assert claims.kept([finding("yes")], None) == ([finding("yes")], [])


def test_a_ledger_is_read_as_it_was_written_and_a_damaged_one_is_one_line(tmp_path):
    assert claims.load(tmp_path) is None
    ledger = claims.Ledger(claims=[finding("yes"), finding("no", {"code": "c"})], made={"cpu": "x"})
    path = claims.save(ledger, tmp_path)
    assert claims.load(tmp_path) == ledger
    (entry, _) = json.loads(path.read_text(encoding="utf-8"))["claims"]
    assert entry["verdict"] == "reproduced" and entry["parts"][0]["runs"] == ["key"]
    text = path.read_text(encoding="utf-8")
    for damaged in (text[:100], "[]", text.replace("reproduced", "partly", 1), "\udcff"):
        path.write_text(damaged, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(DamagedFile, match=r"claims\.json: ") as error:
            claims.load(tmp_path)
        assert "\n" not in str(error.value)


def test_claims_in_a_fresh_clone_keeps_what_was_measured(tmp_path):
    """The command on a copy of the ledger without any run."""
    config = tmp_path / "claims.toml"
    blocks = Path("configs/claims.toml").read_text().split("[[claim]]")
    config.write_text("[[claim]]" + next(b for b in blocks if 'id = "rates"' in b))
    shutil.copy(ROOT / "claims.json", tmp_path)
    before = {c.id: c for c in claims.load(tmp_path).claims}["rates"]
    assert before.verdict == "partly"
    command = [sys.executable, "-m", "expograph", "claims", "--results", str(tmp_path)]
    done = subprocess.run([*command, "--file", str(config)], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1 and "rates" in done.stderr and "make claims" in done.stderr
    (after,) = claims.load(tmp_path).claims
    assert after.parts == before.parts and "partly" in done.stdout
    assert "**Partly.**" in (tmp_path / "claims.md").read_text(encoding="utf-8")


# ---- checks ----


def test_the_gap_and_exact_averaging_hold_and_a_wrong_residual_does_not():
    assert all(p.holds == "yes" for p in mathematics.static_gap(ROOT, largest=64, largest_dense=16))
    right = mathematics.exact_averaging(ROOT, 16, 8, {6: 0.21651})
    assert all(p.holds == "yes" for p in right)
    wrong = mathematics.exact_averaging(ROOT, 16, 8, {6: 0.2})
    assert [p.holds for p in wrong] == ["yes", "yes", "yes", "no"]


def test_uniform_sampling_contracts_as_computed():
    (part,) = mathematics.uniform_sampling(ROOT, nodes=[8], steps=3000)
    assert part.holds == "yes" and "1 - 1/3" in part.text


def test_delayed_momentum_is_stable_below_1_minus_beta_only():
    """Roots of (z - 1)(z - beta) + lr L lie inside the unit circle for lr L < 1 - beta."""
    ours, theirs = mathematics.stability(ROOT, ["dmsgd", "dmsgd_delayed"], beta=0.5, within=0.02)
    assert (ours.holds, theirs.holds) == ("yes", "no")
    assert abs(float(theirs.evidence.split()[-1]) - 0.5) < 0.01
    assert max(abs(np.roots([1, -1.5, 0.5 + 0.499]))) < 1 < max(abs(np.roots([1, -1.5, 1.001])))


def test_communication_counts_what_each_graph_sends(tmp_path):
    *own, engines = mathematics.communication(tmp_path, 16, "engines")
    assert all(p.holds == "yes" for p in own) and engines.holds == "not measured"

    def part(counted: list[int]) -> Part:
        rows = [((i,), (n, 8000)) for i, n in enumerate(counted)]
        keep(tmp_path / "engines", "agreement", ("run",), ("bytes", "bytes_embedded"), rows)
        return mathematics.communication(tmp_path, 16, "engines")[-1]

    rounded = part([8000, 8001])
    assert rounded.holds == "yes" and "1 of 2 runs equal to the byte" in rounded.evidence
    assert part([8000, 8800]).holds == "no"


def keep(folder: Path, id: str, labels: tuple, columns: tuple, rows: list[tuple]) -> None:
    """A table.json with one table."""
    table = TableResult(
        id=id,
        heading="",
        labels=labels,
        columns=tuple(Column(name=name) for name in columns),
        rows=tuple(
            Row(labels=names, cells=tuple(Cell(mean=value) for value in values))
            for names, values in rows
        ),
    )
    save(Tables(title="", tables=(table,)), folder)


def summary(**means: float) -> pd.DataFrame:
    """Runs of these topologies at 8 nodes with five seeds around their mean accuracies."""
    noise = np.array([-0.2, 0.1, 0.0, 0.2, -0.1])
    rows = [
        (f"{name}{seed}", name, 8, seed, "done", mean + noise[seed] * (1 + 0.1 * i))
        for i, (name, mean) in enumerate(means.items())
        for seed in range(5)
    ]
    return pd.DataFrame(
        rows, columns=["key", "topology", "nodes", "seed", "status", accuracy.ACCURACY]
    )


def test_as_accurate_and_more_accurate_need_the_whole_interval(monkeypatch):
    frame = summary(ring=80.0, static_exponential=80.3, star=70.0)
    monkeypatch.setattr(evidence, "finished", lambda root, config: (None, frame))
    kinds = {"ring": "yes", "star": "no"}
    for name, holds in kinds.items():
        (part,) = accuracy.as_accurate(ROOT, "", [name], "static_exponential", margin=1.0)
        assert part.holds == holds and len(part.runs) == 10
    (above,) = accuracy.more_accurate(ROOT, "", [8], ["static_exponential"], ["star"])
    (below,) = accuracy.more_accurate(ROOT, "", [8], ["star"], ["static_exponential"])
    assert (above.holds, below.holds) == ("yes", "no")
    one = frame.drop(frame[(frame["topology"] == "ring") & (frame["seed"] > 0)].index)
    monkeypatch.setattr(evidence, "finished", lambda root, config: (None, one))
    with pytest.raises(NotMeasured, match="two or more seeds"):
        accuracy.as_accurate(ROOT, "", ["ring"], "star", margin=1.0)
    monkeypatch.setattr(evidence, "finished", lambda root, config: (None, frame))
    frame.loc[0, "status"] = "diverged"
    with pytest.raises(NotMeasured, match="diverged"):
        accuracy.as_accurate(ROOT, "", ["ring"], "star", margin=1.0)


def transients(**rows: list[float]) -> pd.DataFrame:
    frame = [
        (name, n, value, 0.9 * value, 1.1 * value, 10**6)
        for name, values in rows.items()
        for n, value in zip((16, 32, 64, 128), values, strict=True)
    ]
    columns = ["topology", "nodes", "transient", "low", "high", "steps"]
    return pd.DataFrame(frame, columns=columns)


def test_iterations_are_compared_at_equal_n_and_by_exponent(monkeypatch):
    n = np.array([16, 32, 64, 128])
    wobble = np.array([1.0, 1.05, 0.95, 1.0])
    measured = transients(
        one_peer_exponential=list(0.5 * n**3.0 * wobble),
        static_exponential=list(0.2 * n**3.0 / wobble),
        ring=list(n**4.0 * wobble),
    )
    monkeypatch.setattr(evidence, "transients", lambda root, config: (measured, ("k",)))
    near = {"exponents": 0.5, "factor": 2.0}
    parts = iterations.same_iterations(ROOT, "", order=3.0, logarithms=2.0, **near)
    assert [p.holds for p in parts] == ["yes", "yes", "yes", "no"]
    assert "2.5 [2.0, 3.1] at n = 16" in parts[3].evidence
    steep = iterations.same_iterations(ROOT, "", order=2.0, logarithms=0.0, **near)
    assert steep[0].holds == "no"
    before = {p.text: p.holds for p in iterations.fewer_iterations(ROOT, "")}
    assert before["static exponential before ring"] == "yes"
    assert before["static exponential before star"] == "not measured"
    assert all(p.holds == "yes" for p in iterations.rates(ROOT, ""))  # n^3, n^3 and n^4 <= n^7
    measured["transient"] *= np.tile([1, 30, 0.03, 1], 3)  # noise
    for part in (
        *iterations.same_iterations(ROOT, "", 3.0, 2.0, **near)[:3],
        *iterations.rates(ROOT, ""),
    ):
        assert part.holds == "undecided"


def test_iterations_that_no_run_was_long_enough_for_decide_nothing(monkeypatch):
    censored = {"transient": np.nan, "low": np.nan, "high": np.nan}
    rows = [
        {"topology": t, "nodes": 16, "steps": steps, **censored}
        for t, steps in (("static_exponential", 1000), ("ring", 4000))
    ]
    measured = pd.DataFrame(rows)
    monkeypatch.setattr(evidence, "transients", lambda root, config: (measured, ("k",)))
    part = iterations.fewer_iterations(ROOT, "")[0]
    assert part.holds == "undecided" and "> 1000 against > 4000" in part.evidence


def test_nothing_is_claimed_of_a_graph_without_an_upper_bound(monkeypatch):
    n = np.array([16, 32, 64, 128])
    measured = transients(random_match=list(n**3.0), ring=list(n**4.0))
    monkeypatch.setattr(evidence, "transients", lambda root, config: (measured, ()))
    order = iterations.theory.transient_order
    bounds = lambda name, n: None if name == "random_match" else order(name, n)  # noqa: E731
    monkeypatch.setattr(iterations.theory, "transient_order", bounds)
    assert [p.id for p in iterations.rates(ROOT, "")] == ["ring"]


OTHERS = ("BlueFog allreduce", "Horovod allreduce", "ring", "static exponential")


def keep_times(folder: Path, one_peer: float, others: float) -> None:
    by_name = dict.fromkeys(OTHERS, others) | {"one-peer exponential": one_peer}
    rows = [((4, 10**6, name), (ms,)) for name, ms in by_name.items()]
    rows += [((4, 100, name), (1.0,)) for name in by_name]  # too short to count
    keep(folder, "times", ("ranks", "elements", "averaging"), ("ms",), rows)


def test_fastest_reads_times_and_hours(tmp_path):
    shutil.copytree(ROOT / "cost_model", tmp_path / "cost_model")
    words = (["times"], 1000, "cost_model")
    with pytest.raises(NotMeasured, match="make testbed"):
        time.fastest(tmp_path, *words, within=0.1)
    keep_times(tmp_path / "times", 20.0, 30.0)
    parts = time.fastest(tmp_path, *words, within=0.1)
    assert parts[0].holds == "yes" and parts[0].evidence.endswith("one-peer: 1.50 at 1,000,000")
    assert "against 1.05 at 4" in parts[1].evidence  # 11.6 / 11.1 hours
    exact = time.fastest(tmp_path, *words, within=0.0)
    assert [p.holds for p in exact[1:]] == ["no", "no"]
    keep_times(tmp_path / "times", 30.0, 20.0)
    assert time.fastest(tmp_path, *words, within=0.1)[0].holds == "no"
    path = tmp_path / "times" / "table.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DamagedFile, match=r"times/table\.json: ") as error:
        time.fastest(tmp_path, *words, within=0.1)
    assert "\n" not in str(error.value)
