"""`expograph topology`: as data, without torch, and what it refuses."""

import json
import os
import subprocess
import sys

import pytest

from expograph import cli
from expograph.graphs.topology import build, names


def listed(capsys, *words: str) -> dict[str, dict]:
    assert cli.main(["topology", "list", "--json", *words]) == 0
    return {one["name"]: one for one in json.loads(capsys.readouterr().out)}


def test_the_list_as_data(capsys):
    found = listed(capsys, "--nodes", "8")
    assert list(found) == [*names(), "ceca_1p", "ceca_2p"]
    keys = ("parameters", "period", "degree", "messages", "exact")
    assert all({"name", "undefined", "gap", "S", "H", *keys} < set(one) for one in found.values())
    values = {name: tuple(one[key] for key in keys) for name, one in found.items()}
    assert values["fully_connected"] == ({}, 1, 7, 1.75, True)  # an all-reduce: 2 (n - 1) / n
    assert values["static_exponential"] == ({}, 1, 3, 3, False)
    assert values["one_peer_exponential"] == ({"order": "cyclic"}, 3, 1, 1, True)
    assert values["random_match"] == ({}, None, 1, 1, False)
    permuted, drawn = (f"one_peer_exponential(order={o})" for o in ("permutation", "uniform"))
    assert values[permuted] == ({"order": "permutation"}, None, 1, 1, True)
    assert values[drawn] == ({"order": "uniform"}, None, 1, 1, False)
    assert values["ceca_2p"] == ({}, 3, 1, 1, True)
    one_peer, pushed = found["one_peer_exponential"], found["uniform_gossip"]
    assert (one_peer["S"], one_peer["gap"]) == (pytest.approx(8 - 1 - 3), None)
    assert found["static_exponential"]["gap"] == pytest.approx(0.5)
    assert pushed["S"] is pushed["H"] is found["ceca_1p"]["S"] is None


def test_what_is_not_defined_is_listed_with_the_reason(capsys, monkeypatch):
    found = listed(capsys, "--nodes", "7")
    reasons = {name: one["undefined"] for name, one in found.items() if one["undefined"]}
    assert set(reasons) == {
        "hyper_hypercube",
        "bipartite_exponential",
        "bipartite_exponential(rule=qgm)",
        "inner_outer_exponential",
        "alternating_exp_ring",
        "ceca_1p",
    }
    assert found["ceca_1p"]["period"] is None
    monkeypatch.setenv("COLUMNS", "160")
    assert cli.main(["topology", "list", "--nodes", "7"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name}: {reason}" in out for name, reason in reasons.items())


def test_ceca_is_shown_by_its_rounds(capsys):
    assert cli.main(["topology", "show", "ceca_2p", "--nodes", "6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "3 rounds" in lines[0] and "averages exactly: 3 steps" in lines[1]
    assert [line.split(",")[0] for line in lines if line.startswith("step")] == [
        "step 0: rank 0 hears x of rank 5",
        "step 1: rank 0 hears x_hat of rank 5",
        "step 2: rank 0 hears x of rank 3",
    ]


ANY_N = {"base", "simple_base", "hyper_cuboid", "ceca_2p"}  # exact whatever n is


@pytest.mark.parametrize(
    ("n", "exact"),
    [
        (3, {"fully_connected", "ring", "torus", "static_exponential", *ANY_N, "null_cascade"}),
        (6, {"fully_connected", "null_cascade", *ANY_N, "ceca_1p"}),
    ],
)
def test_exactness_is_of_the_product_not_of_the_name(n, exact, capsys):
    """A drawn graph may be exact by luck."""
    found = {name for name, one in listed(capsys, "--nodes", str(n)).items() if one["exact"]}
    drawn = {"half_random", "d_equistatic", "u_equistatic", "directed_random"}
    assert found - drawn == exact
    for name in found & drawn:
        assert build(name, n).at(0).is_exact_average


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "rong"], "unknown topology 'rong'; did you mean 'ring'?"),
        (["show", "one_peer_exponential(ordr=uniform)"], "did you mean 'order'?"),
        (["show", "one_peer_exponential(order=unifrom)"], "did you mean 'uniform'?"),
        (["show", "ring(k=2)"], "topology 'ring' has no parameters, got 'k'"),
        (["show", "ring", "--json"], "--json: `expograph topology list` has it"),
        (["list", "--nodes", "1000000000"], "--nodes 1000000000: at most 1,048,576"),
        (["show", "ring", "--nodes", "1000000000"], "at most 1,048,576"),
        (["show", "hyper_hypercube", "--nodes", "12"], "hyper_hypercube over 12 ranks: 12 has"),
        (["show", "ceca_1p", "--nodes", "7"], "n must be even"),
        (["show", "ceca_2p", "--output", "a.png"], "no matrix to draw"),
        (["list", "--nodes", "5000"], "fully_connected has 25,000,000 weights"),
        (["show", "half_random", "--nodes", "100000"], "at most 8,192 ranks"),
        (["list", "--seed", "-1"], "--seed -1: needs at least 0"),
        (["show", "random_match", "--seed", "4294967296"], "less than 2^32"),
        (["show", "ring", "--nodes", "100000", "--output", "a.png"], "matrix entries"),
        (["show", "ring", "--steps", "1000000000", "--output", "a.png"], "matrix entries"),
    ],
)
def test_what_cannot_be_is_one_line(words, said, capsys):
    assert cli.main(["topology", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_folder_is_no_file(tmp_path, capsys):
    folder = tmp_path / "a.png"
    folder.mkdir()
    assert cli.main(["topology", "show", "ring", "--output", str(folder)]) == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", ["one_peer_exponential_uniform", " one_peer_exponential( order = uniform )"]
)
def test_a_spelling_is_shown_as_the_one_that_it_is(given, capsys):
    assert cli.main(["topology", "show", given, "--nodes", "6"]) == 0
    assert capsys.readouterr().out.startswith("one_peer_exponential(order=uniform) over 6 ranks")


@pytest.mark.parametrize(
    "words", [["list"], ["list", "--json"], ["show", "grid"], ["show", "gird"]]
)
def test_nothing_heavy_is_imported(words):
    heavy = ["torch", "pandas", "matplotlib", "torchvision"]
    code = (
        f"import sys; from expograph.cli import main; main({['topology', *words]!r}); "
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_reader_that_leaves_at_once_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "expograph", "topology", "show", "ring"]
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.returncode == 0 and done.stderr == ""
