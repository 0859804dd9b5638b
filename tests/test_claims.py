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
        ([True, True], "reproduced"),
        ([True, False], "partly"),
        ([False, False], "not reproduced"),
        ([True, None], "not measured"),
    ],
)
def test_the_verdict_follows_the_parts(holds, verdict):
    assert Finding(claim(), [Part("p", h, "e") for h in holds]).verdict == verdict


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
    assert all(p.holds for p in claims.static_gap(ROOT, largest=64, largest_dense=16))
    right = claims.exact_averaging(ROOT, 16, 8, {"6": 0.21651})
    assert all(p.holds for p in right)
    wrong = claims.exact_averaging(ROOT, 16, 8, {"6": 0.2})
    assert [p.holds for p in wrong] == [True, True, True, False]


def test_uniform_sampling_contracts_as_computed():
    (part,) = claims.uniform_sampling(ROOT, nodes=[8], steps=3000)
    assert part.holds and "1 - 1/3" in part.text


def test_delayed_momentum_is_stable_below_1_minus_beta_only():
    """Roots of (z - 1)(z - beta) + lr L lie inside the unit circle for lr L < 1 - beta."""
    ours, theirs = claims.stability(ROOT, ["vanilla_dmsgd", "dmsgd"], beta=0.5, within=0.02)
    assert ours.holds and not theirs.holds
    assert abs(float(theirs.evidence.split()[-1]) - 0.5) < 0.01
    assert max(abs(np.roots([1, -1.5, 0.5 + 0.499]))) < 1 < max(abs(np.roots([1, -1.5, 1.001])))


def test_communication_counts_what_each_graph_sends(tmp_path):
    path = tmp_path / "agree.csv"
    *own, engines = claims.communication(ROOT, 16, str(path))
    assert all(p.holds for p in own) and engines.holds is None
    frame = pd.DataFrame({"ranks": [4, 4], "bytes": [8, 9], "bytes_embedded": [8, 8]})
    frame.to_csv(path)
    assert claims.communication(ROOT, 16, str(path))[-1].holds is False
    frame.assign(bytes=8).to_csv(path)
    assert claims.communication(ROOT, 16, str(path))[-1].holds is True


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
    kinds = {"ring": True, "star": False}
    for name, holds in kinds.items():
        (part,) = claims.as_accurate(ROOT, "", [name], "static_exponential", margin=1.0)
        assert part.holds is holds and len(part.runs) == 10
    (above,) = claims.more_accurate(ROOT, "", [8], ["static_exponential"], ["star"])
    (below,) = claims.more_accurate(ROOT, "", [8], ["star"], ["static_exponential"])
    assert above.holds and not below.holds
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
    one, static, alike, number = claims.same_iterations(ROOT, "", order=3.0, logarithms=2.0)
    assert one.holds and static.holds and alike.holds
    assert not number.holds and "2.5 at n = 16" in number.evidence
    steep = claims.same_iterations(ROOT, "", order=2.0, logarithms=0.0)
    assert not steep[0].holds
    before = {p.text: p.holds for p in claims.fewer_iterations(ROOT, "")}
    assert (
        before["static exponential before ring"]
        and before["static exponential before star"] is None
    )
    assert all(p.holds for p in claims.rates(ROOT, ""))  # n^3, n^3 and n^4 <= n^7


def test_fastest_reads_times_and_hours(tmp_path):
    names = ["BlueFog allreduce", "Horovod allreduce", "ring", "static exponential"]
    rows = [(4, 10**6, name, 30.0) for name in names] + [(4, 10**6, "one-peer exponential", 20.0)]
    times = pd.DataFrame(rows, columns=["ranks", "elements", "averaging", "ms"])
    times.to_csv(tmp_path / "t.csv")
    hours = "cost_model/table.csv"
    parts = claims.fastest(ROOT, [str(tmp_path / "t.csv")], 1000, hours)
    assert [p.holds for p in parts] == [True] * 4
    assert "1.05 at 4" in parts[1].evidence  # 11.6 / 11.1 hours
    times["ms"] = 50.0 - times["ms"]
    times.to_csv(tmp_path / "t.csv")
    assert not claims.fastest(ROOT, [str(tmp_path / "t.csv")], 1000, hours)[0].holds
