"""The ledger: verdicts follow the parts, checks tell true from false, bad files are one line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from expograph import claims
from expograph.claims import Claim, Finding, NotMeasured, Part
from expograph.config import ConfigError

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
    assert Finding(claim(), [Part("p", h, "e") for h in holds]).verdict == verdict


def test_more_noise_helps_no_claim():
    """A wide interval decides nothing, whatever is claimed of it."""
    assert claims.between(1, 2, most=3) == "yes" and claims.between(1, 2, lowest=3) == "no"
    assert claims.between(4, 5, most=3) == "no" and claims.between(1, 2, 0, 3) == "yes"
    for sides in ({"most": 3}, {"lowest": 3}, {"lowest": 2, "most": 4}):
        assert claims.between(-100, 100, **sides) == "undecided"
    assert claims.every([]) == "not measured"
    assert claims.every(["yes", "undecided"]) == "undecided"
    assert claims.every(["yes", "undecided", "no"]) == "no"
    assert Finding(claim(), [Part("p", "yes", "e")] * 2 + [Part("p", "no", "e")]).counts == (
        "2 yes, 1 no"
    )


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
        ("[[claim]]\nid='a'\nstatement=''\nsource=''\ncheck='rates'\nwiht={}\n", "claim a: wiht"),
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


def test_wrong_arguments_are_a_line_and_missing_evidence_a_verdict(tmp_path):
    with pytest.raises(ConfigError, match=r"claim a: with: .*unexpected keyword argument 'x'"):
        claims.measure(claim(**{"with": {"config": "configs/transients.toml", "x": 1}}), ROOT)
    found = claims.measure(claim(**{"with": {"config": "configs/transients.toml"}}), tmp_path)
    assert found.verdict == "not measured"
    assert "runs of configs/transients.toml are missing" in found.parts[0].evidence


def test_the_gap_and_exact_averaging_hold_and_a_wrong_residual_does_not():
    assert all(p.holds == "yes" for p in claims.static_gap(ROOT, largest=64, largest_dense=16))
    right = claims.exact_averaging(ROOT, 16, 8, {"6": 0.21651})
    assert all(p.holds == "yes" for p in right)
    wrong = claims.exact_averaging(ROOT, 16, 8, {"6": 0.2})
    assert [p.holds for p in wrong] == ["yes", "yes", "yes", "no"]


def test_uniform_sampling_contracts_as_computed():
    (part,) = claims.uniform_sampling(ROOT, nodes=[8], steps=3000)
    assert part.holds == "yes" and "1 - 1/3" in part.text


def test_delayed_momentum_is_stable_below_1_minus_beta_only():
    """Roots of (z - 1)(z - beta) + lr L lie inside the unit circle for lr L < 1 - beta."""
    ours, theirs = claims.stability(ROOT, ["vanilla_dmsgd", "dmsgd"], beta=0.5, within=0.02)
    assert (ours.holds, theirs.holds) == ("yes", "no")
    assert abs(float(theirs.evidence.split()[-1]) - 0.5) < 0.01
    assert max(abs(np.roots([1, -1.5, 0.5 + 0.499]))) < 1 < max(abs(np.roots([1, -1.5, 1.001])))


def test_communication_counts_what_each_graph_sends(tmp_path):
    path = tmp_path / "agree.csv"
    *own, engines = claims.communication(ROOT, 16, str(path))
    assert all(p.holds == "yes" for p in own) and engines.holds == "not measured"
    frame = pd.DataFrame({"ranks": [4, 4], "bytes": [8000, 8001], "bytes_embedded": [8000, 8000]})
    frame.to_csv(path)
    rounded = claims.communication(ROOT, 16, str(path))[-1]
    assert rounded.holds == "yes" and "1 of 2 runs equal to the byte" in rounded.evidence
    frame.assign(bytes=[8000, 8800]).to_csv(path)
    assert claims.communication(ROOT, 16, str(path))[-1].holds == "no"


def summary(**means: float) -> pd.DataFrame:
    """Runs of these topologies at 8 nodes with five seeds around their mean accuracies."""
    noise = np.array([-0.2, 0.1, 0.0, 0.2, -0.1])
    rows = [
        (f"{name}{seed}", name, 8, seed, "done", mean + noise[seed] * (1 + 0.1 * i))
        for i, (name, mean) in enumerate(means.items())
        for seed in range(5)
    ]
    return pd.DataFrame(
        rows, columns=["key", "topology", "nodes", "seed", "status", claims.ACCURACY]
    )


def test_as_accurate_and_more_accurate_need_the_whole_interval(monkeypatch):
    frame = summary(ring=80.0, static_exponential=80.3, star=70.0)
    monkeypatch.setattr(claims, "_finished", lambda root, config: (None, frame))
    kinds = {"ring": "yes", "star": "no"}
    for name, holds in kinds.items():
        (part,) = claims.as_accurate(ROOT, "", [name], "static_exponential", margin=1.0)
        assert part.holds == holds and len(part.runs) == 10
    (above,) = claims.more_accurate(ROOT, "", [8], ["static_exponential"], ["star"])
    (below,) = claims.more_accurate(ROOT, "", [8], ["star"], ["static_exponential"])
    assert (above.holds, below.holds) == ("yes", "no")
    one = frame.drop(frame[(frame["topology"] == "ring") & (frame["seed"] > 0)].index)
    monkeypatch.setattr(claims, "_finished", lambda root, config: (None, one))
    with pytest.raises(NotMeasured, match="two or more seeds"):
        claims.as_accurate(ROOT, "", ["ring"], "star", margin=1.0)
    monkeypatch.setattr(claims, "_finished", lambda root, config: (None, frame))
    frame.loc[0, "status"] = "diverged"
    with pytest.raises(NotMeasured, match="diverged"):
        claims.as_accurate(ROOT, "", ["ring"], "star", margin=1.0)


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
    monkeypatch.setattr(claims, "_measured_transients", lambda root, config: (measured, ("k",)))
    near = {"exponents": 0.5, "factor": 2.0}
    parts = claims.same_iterations(ROOT, "", order=3.0, logarithms=2.0, **near)
    assert [p.holds for p in parts] == ["yes", "yes", "yes", "no"]
    assert "2.5 [2.0, 3.1] at n = 16" in parts[3].evidence
    steep = claims.same_iterations(ROOT, "", order=2.0, logarithms=0.0, **near)
    assert steep[0].holds == "no"
    before = {p.text: p.holds for p in claims.fewer_iterations(ROOT, "")}
    assert before["static exponential before ring"] == "yes"
    assert before["static exponential before star"] == "not measured"
    assert all(p.holds == "yes" for p in claims.rates(ROOT, ""))  # n^3, n^3 and n^4 <= n^7
    measured["transient"] *= np.tile([1, 30, 0.03, 1], 3)  # noise
    for part in (*claims.same_iterations(ROOT, "", 3.0, 2.0, **near)[:3], *claims.rates(ROOT, "")):
        assert part.holds == "undecided"


def test_iterations_that_no_run_was_long_enough_for_decide_nothing(monkeypatch):
    censored = {"transient": np.nan, "low": np.nan, "high": np.nan}
    rows = [
        {"topology": t, "nodes": 16, "steps": steps, **censored}
        for t, steps in (("static_exponential", 1000), ("ring", 4000))
    ]
    measured = pd.DataFrame(rows)
    monkeypatch.setattr(claims, "_measured_transients", lambda root, config: (measured, ("k",)))
    part = claims.fewer_iterations(ROOT, "")[0]
    assert part.holds == "undecided" and "> 1000 against > 4000" in part.evidence


def test_fastest_reads_times_and_hours(tmp_path):
    names = ["BlueFog allreduce", "Horovod allreduce", "ring", "static exponential"]
    rows = [(4, 10**6, name, 30.0) for name in names] + [(4, 10**6, "one-peer exponential", 20.0)]
    times = pd.DataFrame(rows, columns=["ranks", "elements", "averaging", "ms"])
    times.to_csv(tmp_path / "t.csv")
    hours = "cost_model/table.csv"
    parts = claims.fastest(ROOT, [str(tmp_path / "t.csv")], 1000, hours, within=0.1)
    assert parts[0].holds == "yes" and "1.50 at 1,000,000" in parts[0].evidence
    assert "against 1.05 at 4" in parts[1].evidence  # 11.6 / 11.1 hours
    exact = claims.fastest(ROOT, [str(tmp_path / "t.csv")], 1000, hours, within=0.0)
    assert [p.holds for p in exact[1:]] == ["no", "no"]
    times["ms"] = 50.0 - times["ms"]
    times.to_csv(tmp_path / "t.csv")
    slower = claims.fastest(ROOT, [str(tmp_path / "t.csv")], 1000, hours, within=0.1)
    assert slower[0].holds == "no"
    (tmp_path / "t.csv").write_text("ranks,elements\n4,1")
    with pytest.raises(ValueError, match=r"t\.csv: is empty or ends in the middle"):
        claims.fastest(ROOT, [str(tmp_path / "t.csv")], 1000, hours, within=0.1)
