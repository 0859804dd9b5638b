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
import scipy

from expograph import claims
from expograph.analysis.growth import crossing, growth
from expograph.analysis.statistics import paired
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
from expograph.claims.outcome import PValues, between, by_draws, decided, every, within
from expograph.config import ConfigError, Experiment, Table
from expograph.files import DamagedFile
from expograph.runs.thinning import BlockMeans

ROOT = Path("results")


def claim(**changes) -> Claim:
    return Claim.model_validate(
        {"id": "a", "ledger": "ours", "statement": "s", "source": "o", "check": "rates"} | changes
    )


@pytest.mark.parametrize(
    "holds, verdict",
    [
        (["yes", "yes"], "supported"),
        (["yes", "no"], "refuted"),
        (["undecided", "no", "not measured"], "refuted"),
        (["yes", "undecided"], "undecided"),
        (["yes", "not measured"], "not measured"),
        (["undecided", "not measured"], "not measured"),
        (["not measured", "not measured"], "not measured"),
    ],
)
def test_the_verdict_follows_the_endpoint(holds, verdict):
    parts = [Part(f"{i}", "p", h, "e") for i, h in enumerate(holds)]
    assert Finding.of(claim(), parts).verdict == verdict
    beside = [Part(f"beside {h}", "p", h, "e") for h in ("yes", "no", "undecided")]
    only = claim(primary=[part.id for part in parts])
    assert Finding.of(only, [*beside, *parts]).verdict == verdict


def test_an_endpoint_that_is_no_part_is_one_line():
    with pytest.raises(ValueError, match="primary: no part 'b', there are a"):
        Finding.of(claim(primary=["b"]), [Part("a", "p", "yes", "e")])
    absent = [Part("evidence", "p", "not measured", "e")]
    assert Finding.of(claim(primary=["b"]), absent).verdict == "not measured"


def test_parts_beside_the_endpoint_are_corrected_for_their_number():
    parts = [Part.tested(f"{i}", "p", PValues(0.02, 0.98), "e") for i in range(2)]
    alone, one_of_two = parts
    assert alone.holds == one_of_two.holds == "yes"
    both = Finding.of(claim(primary=["0"]), parts)
    assert [p.holds for p in both.parts] == ["yes", "yes"]  # one beside: nothing to correct
    third = Part.tested("2", "p", PValues(0.9, 0.001), "e")
    many = Finding.of(claim(primary=["0"]), [*parts, third])
    assert [p.holds for p in many.parts] == ["yes", "undecided", "no"]
    assert many.parts[1].p == 0.04 and many.parts[2].against == 0.002


def test_tests_of_a_difference_agree_with_scipy_and_with_its_interval():
    rng = np.random.default_rng(3)
    for shift in (-1.0, -0.3, 0.0, 0.2, 1.0):
        a, b = rng.normal(shift, 0.3, 8), rng.normal(0, 0.3, 8)
        found = paired(a, b)
        p, against = within(found, -0.5, 0.5)
        above = scipy.stats.ttest_1samp(a - b, -0.5, alternative="greater").pvalue
        below = scipy.stats.ttest_1samp(a - b, 0.5, alternative="less").pvalue
        assert p == pytest.approx(max(above, below))
        assert against == pytest.approx(min(1 - above, 1 - below))
        assert decided(p, against) == between(found.low, found.high, -0.5, 0.5)
    same = paired(np.ones(3), np.ones(3))
    assert within(same, -0.5, 0.5) == (0.0, 1.0) and within(same, 0.5) == (1.0, 0.0)


def test_bootstrap_draws_decide_as_their_quantiles_do():
    draws = np.linspace(0, 1, 1000)
    assert decided(*by_draws(draws, most=1.1)) == "yes" == decided(*by_draws(draws, -0.1, 1.1))
    assert decided(*by_draws(draws, most=0.5)) == "undecided"
    assert decided(*by_draws(draws, lowest=2.0)) == "no"


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
    assert Finding.of(claim(), parts).counts(primary=True) == "2 yes, 1 no"


def test_the_committed_claims_load_and_each_has_a_check_and_a_source():
    stated = claims.read(Path("configs/claims.toml"))
    assert len(stated) >= 10
    for config in claims.experiments(stated):
        assert Path(config).exists()
    assert all(c.source for c in stated)


@pytest.mark.parametrize(
    "text, line",
    [
        ("[[claim]]\nid = 'a'\nledger = 'paper'\n", "claim a: statement: Field required"),
        ("[[claim]]\nid = 'a'\nledger = 'papers'\n", "claim a: ledger: .*'paper'"),
        (
            "[[claim]]\nid='a'\nledger='ours'\nstatement=''\nsource=''\ncheck='rats'\n",
            "did you mean 'rates'",
        ),
        (
            "[[claim]]\nid='a'\nledger='ours'\nstatement=''\nsource=''\ncheck='rates'\nwiht={}\n",
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
    head = '[[claim]]\nid = "a"\nledger = "ours"\nstatement = "s"\nsource = "o"\n'
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
        assert len(line) < 800  # with the name of every topology


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
    for check, config in (
        ("rates", "configs/table2.toml"),
        ("rules_better", "configs/transients.toml"),
        ("linear_speedup", "configs/table2.toml"),
    ):
        with pytest.raises(ConfigError, match=r"with\.config: .* has no table of"):
            rules = {"where": {"steps": 1}, "algorithms": ["dmsgd"], "than": "psgd"}
            extra = {
                "topologies": ["ring"],
                **(rules if check == "rules_better" else {"within": 0.1}),
            }
            extra = {} if check == "rates" else extra
            claims.read(stated(path, check, {"config": config, **extra}))


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
    assert kept == ["a"] and new.verdict == "supported"
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
    assert entry["verdict"] == "supported" and entry["parts"][0]["runs"] == ["key"]
    text = path.read_text(encoding="utf-8")
    for damaged in (text[:100], "[]", text.replace("supported", "refuted", 1), "\udcff"):
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
    assert before.verdict != "not measured"
    command = [sys.executable, "-m", "expograph", "claims", "--results", str(tmp_path)]
    done = subprocess.run([*command, "--file", str(config)], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1 and "rates" in done.stderr and "make claims" in done.stderr
    (after,) = claims.load(tmp_path).claims
    assert after.parts == before.parts and before.verdict in done.stdout
    assert f"**{before.verdict.capitalize()}.**" in (tmp_path / "claims.md").read_text(
        encoding="utf-8"
    )


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


def test_accuracy_checks_need_the_whole_interval(monkeypatch):
    frame = summary(ring=80.0, static_exponential=80.3, star=70.0)
    monkeypatch.setattr(evidence, "finished", lambda root, config, where=None: (None, frame))
    about = {"where": {"status": "done"}, "nodes": [8]}
    for name, holds in {"ring": "yes", "star": "no"}.items():
        against = {"topologies": [name], "reference": "static_exponential", "margin": 1.0}
        for check in (accuracy.as_accurate, accuracy.alike):
            (part,) = check(ROOT, "", **about, **against)
            assert part.holds == holds and len(part.runs) == 10
    above = {"topologies": ["static_exponential"], "reference": "star", "margin": 1.0}
    (part,) = accuracy.as_accurate(ROOT, "", **about, **above)
    (other,) = accuracy.alike(ROOT, "", **about, **above)
    assert (part.holds, other.holds) == ("yes", "no")  # better is no worse, and not alike
    (above,) = accuracy.more_accurate(ROOT, "", **about, topologies=["ring"], than=["star"])
    (below,) = accuracy.more_accurate(ROOT, "", **about, topologies=["star"], than=["ring"])
    assert (above.holds, below.holds) == ("yes", "no")
    assert "5 seeds: +10.04, +9.98" in above.evidence  # each is shown where they are few


def test_only_the_runs_that_a_claim_is_about_must_be_there():
    config = "configs/table2.toml"
    _, summary = evidence.finished(ROOT, config, {"nodes": 32, "seed": 0})
    assert set(summary["nodes"]) == {32} and len(summary) == 4
    with pytest.raises(NotMeasured, match=r"no runs with \{'nodes': 5\}"):
        evidence.finished(ROOT, config, {"nodes": 5})


def test_runs_that_cannot_be_paired_decide_nothing(monkeypatch):
    frame = summary(ring=80.0, static_exponential=80.3, star=70.0)
    one = frame.drop(frame[(frame["topology"] == "ring") & (frame["seed"] > 0)].index)
    monkeypatch.setattr(evidence, "finished", lambda root, config, where=None: (None, one))
    words = ({"status": "done"}, [8], ["ring"])
    with pytest.raises(NotMeasured, match="two or more seeds"):
        accuracy.as_accurate(ROOT, "", *words, "star", margin=1.0)
    with pytest.raises(NotMeasured, match="no finished runs"):
        accuracy.as_accurate(ROOT, "", {"nodes": 8}, [16], ["ring"], "star", margin=1.0)
    monkeypatch.setattr(evidence, "finished", lambda root, config, where=None: (None, frame))
    frame.loc[0, "status"] = "diverged"
    with pytest.raises(NotMeasured, match="diverged"):
        accuracy.as_accurate(ROOT, "", {"nodes": 8}, *words[1:], "star", margin=1.0)


def test_rules_are_compared_on_the_same_graph(monkeypatch):
    frames = [summary(ring=80.0 + 2 * i).assign(algorithm=name) for i, name in enumerate("ab")]
    frame = pd.concat([frames[0], frames[1].assign(key="other" + frames[1]["key"])])
    monkeypatch.setattr(evidence, "finished", lambda root, config, where=None: (None, frame))
    (better,) = accuracy.rules_better(ROOT, "", {"nodes": 8}, ["ring"], ["b"], than="a")
    (alike,) = accuracy.rules_alike(ROOT, "", {"nodes": 8}, ["ring"], ["b"], "a", margin=1.0)
    assert (better.holds, alike.holds) == ("yes", "no") and "+2.00" in better.evidence


def transients(**rows: list[float]) -> pd.DataFrame:
    frame = [
        (name, n, value, 0.9 * value, 1.1 * value, 10**6)
        for name, values in rows.items()
        for n, value in zip((16, 32, 64, 128), values, strict=True)
    ]
    columns = ["topology", "nodes", "transient", "low", "high", "steps"]
    return pd.DataFrame(frame, columns=columns)


def measured_as(monkeypatch, measured: pd.DataFrame) -> None:
    """Let the checks find these transient iterations."""
    summary = pd.DataFrame({"key": ["k"]})
    found = evidence.Convergence(None, summary, {}, measured)
    monkeypatch.setattr(evidence, "convergence", lambda root, config: found)


def test_iterations_are_compared_at_equal_n_and_with_the_bound(monkeypatch):
    n = np.array([16, 32, 64, 128])
    wobble = np.array([1.0, 1.05, 0.95, 1.0])
    measured = transients(
        one_peer_exponential=list(0.5 * n**3.0 * wobble),
        static_exponential=list(0.2 * n**3.0 / wobble),
        ring=list(n**4.0 * wobble),
    )
    measured_as(monkeypatch, measured)
    same = iterations.same_number(ROOT, "", factor=2.0)
    assert [p.holds for p in same] == ["no", "no", "undecided", "no"]
    assert "2.5 [2.0, 3.1] times as many" in same[0].evidence
    assert all(p.holds == "yes" for p in iterations.same_number(ROOT, "", factor=4.0))
    before = {p.text: p.holds for p in iterations.fewer_iterations(ROOT, "")}
    assert before["static exponential before ring"] == "yes"
    assert before["static exponential before star"] == "not measured"
    messages = {p.id: p for p in iterations.balance(ROOT, "")}
    assert messages["one_peer_exponential/ring/n=16"].holds == "yes"  # 2048 x 1 and 65536 x 2
    assert "x 1 against 65536 x 2" in messages["one_peer_exponential/ring/n=16"].evidence


def test_messages_count_where_a_shorter_transient_does_not(monkeypatch):
    """The static graph needs fewer iterations than the ring, and more messages."""
    measured_as(monkeypatch, transients(static_exponential=[900] * 4, ring=[1000] * 4))
    assert {p.holds for p in iterations.balance(ROOT, "")} == {"no"}


GROWING = {"one_peer_exponential": 3.0, "static_exponential": 2.0}  # exponents


def grown_runs(noise: float) -> tuple[pd.DataFrame, dict, Table]:
    """Runs whose curves are (1 + T / k) times parallel SGD's, T = n^exponent, at 16 to 64 nodes."""
    rng, steps = np.random.default_rng(0), np.arange(10, 2 * 64**3, 10)
    rows, errors = [], {}
    for name, n in ((name, n) for name in (*GROWING, "fully_connected") for n in (16, 32, 64)):
        for seed in range(6):
            key = f"{name}{n}{seed}"
            algorithm = "psgd" if name == "fully_connected" else "dsgd_atc"
            rows.append((key, name, n, seed, "done", algorithm, int(steps[-1])))
            over = n ** GROWING[name] / steps if name in GROWING else 0.0
            curve = (1 + over) / steps * np.exp(noise * rng.normal())
            errors[key] = {"error_workers": BlockMeans.of(steps, curve, [int(steps[-1])])}
    columns = ["key", "topology", "nodes", "seed", "status", "algorithm", "steps"]
    table = Table(title="t", rows=["topology"], metrics=["error_workers"], factor=2.0)
    return pd.DataFrame(rows, columns=columns), errors, table


def test_growth_finds_the_exponents_and_noise_of_the_seeds_widens_their_intervals():
    widths = []
    for noise in (0.01, 0.1):
        found = growth(*grown_runs(noise), list(GROWING))
        assert found.nodes == (16, 32, 64)
        for name, exponent in GROWING.items():
            low, high = found.interval(name)
            assert low - 0.05 <= exponent <= high + 0.05
            assert abs(found.exponents[name] - exponent) < 0.05 + 2 * noise
        widths.append(high - low)
    assert widths[1] > 3 * widths[0]
    summary, *others = grown_runs(0.01)
    assert growth(summary[summary["nodes"] < 64], *others, list(GROWING)) is None


def test_a_crossing_lies_between_blocks_and_at_the_ends_where_there_is_none():
    steps = np.array([1.0, 10.0, 100.0, 1000.0])
    found = crossing(steps, np.array([9.0, 4.0, 1.0, 1.0]), np.full(4, 2.0))
    assert found == pytest.approx(10**1.5)  # 4 -> 2 is half of 4 -> 1 in logarithms
    assert crossing(steps, np.ones(4), np.full(4, 2.0)) == 1.0
    assert crossing(steps, np.full(4, 3.0), np.full(4, 2.0)) == 1000.0


def test_growth_is_held_against_the_claimed_order(monkeypatch):
    summary, errors, table = grown_runs(0.02)
    experiment = Experiment.model_construct(table=table)
    found = evidence.Convergence(experiment, summary, errors, pd.DataFrame())
    monkeypatch.setattr(evidence, "convergence", lambda root, config: found)
    check = iterations.growth_no_faster
    parts = {p.id: p.holds for p in check(ROOT, "", order=2.5, logarithms=0.0, apart=0.5)}
    assert parts == {
        "one_peer_exponential": "no", "static_exponential": "yes", "exponents": "no"
    }  # fmt: skip
    parts = check(ROOT, "", order=3.0, logarithms=2.0, apart=1.5)
    assert {p.holds for p in parts} == {"yes"}


def test_linear_speedup_is_an_error_that_falls_as_one_over_n(monkeypatch):
    rng = np.random.default_rng(0)
    rows = [
        (f"{name}{n}{seed}", name, n, seed, n**power * np.exp(0.05 * rng.normal()))
        for name, power in (("ring", -0.6), ("static_exponential", -1.0))
        for n in (2, 4, 8, 16)
        for seed in range(10)
    ]
    summary = pd.DataFrame(rows, columns=["key", "topology", "nodes", "seed", "error_workers"])
    monkeypatch.setattr(evidence, "finished", lambda root, config, where=None: (None, summary))
    words = ["ring", "static_exponential"]
    ring, static = iterations.linear_speedup(ROOT, "", words, within=0.1)
    assert (ring.holds, static.holds) == ("no", "yes") and "n^-0.59" in ring.evidence


def test_iterations_that_no_run_was_long_enough_for_decide_nothing(monkeypatch):
    censored = {"transient": np.nan, "low": np.nan, "high": np.nan}
    rows = [
        {"topology": t, "nodes": 16, "steps": steps, **censored}
        for t, steps in (("static_exponential", 1000), ("ring", 4000))
    ]
    measured_as(monkeypatch, pd.DataFrame(rows))
    part = iterations.fewer_iterations(ROOT, "")[0]
    assert part.holds == "undecided" and "> 1000 against > 4000" in part.evidence


def test_rates_are_those_of_the_bounds_and_nothing_is_claimed_without_one(monkeypatch):
    summary, errors, table = grown_runs(0.02)
    experiment = Experiment.model_construct(table=table)
    measured = pd.DataFrame({"topology": list(GROWING)})
    found = evidence.Convergence(experiment, summary, errors, measured)
    monkeypatch.setattr(evidence, "convergence", lambda root, config: found)
    assert [p.holds for p in iterations.rates(ROOT, "")] == ["yes", "yes"]  # n^3, n^2 <= n^3.5
    slow = {"one_peer_exponential": lambda n: float(n**2), "static_exponential": lambda n: None}
    monkeypatch.setattr(iterations.theory, "transient_order", lambda name, n: slow[name](n))
    (part,) = iterations.rates(ROOT, "")
    assert (part.id, part.holds) == ("one_peer_exponential", "no")


def test_predictions_are_judged_by_their_median_distance():
    """The first release's transients, measured before they were predicted."""
    near = iterations.predicted(ROOT, "configs/transients.toml", blocks=5, share=0.5)
    assert [part.holds for part in near] == ["yes", "yes"] and "of 39 predictions" in near[
        0
    ].evidence
    far = iterations.predicted(ROOT, "configs/transients.toml", blocks=0, share=1.0)
    assert [part.holds for part in far] == ["no", "no"]


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
