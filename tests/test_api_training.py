"""Training through the public API: own modules, against torch; configs and results read."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

import expograph as eg


def test_ten_lines_train_a_module_on_ones_own_graph():
    torch.manual_seed(0)
    inputs = torch.randn(300, 4)
    targets = inputs @ torch.tensor([[1.0], [2.0], [-1.0], [0.5]])
    graph = eg.topology(nx.petersen_graph())
    problem = eg.Supervised(
        torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, inputs, targets, batch_size=8
    )
    result = eg.train(problem, "dsgd_atc", graph, steps=150, lr=0.1)
    assert result.diverged is None and result.models.shape == (10, 5)
    assert result.final["loss_averaged"] < 1e-6 < result.curve["train_loss"][1]
    np.testing.assert_allclose(result.module(inputs).detach(), targets, atol=1e-2)
    weight = torch.cat([p.detach().flatten() for p in result.module.parameters()])
    torch.testing.assert_close(weight, result.models.mean(dim=0))


def test_one_worker_is_torchs_sgd():
    torch.manual_seed(0)
    inputs, targets = torch.randn(6, 3), torch.randn(6, 1)
    module = torch.nn.Linear(3, 1)
    problem = eg.Supervised(module, torch.nn.functional.mse_loss, inputs, targets, batch_size=6)
    result = eg.train(problem, "vanilla_dmsgd", np.eye(1), steps=10, lr=0.1, beta=0.9)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for _ in range(10):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(inputs), targets).backward()
        optimizer.step()
    torch.testing.assert_close(result.module.weight, module.weight)


def test_scores_shards_and_a_divergence():
    inputs, targets = torch.eye(4), torch.arange(4)
    problem = eg.Supervised(
        torch.nn.Linear(4, 4),
        torch.nn.functional.cross_entropy,
        inputs,
        targets,
        scores={"accuracy": lambda out, y: (out.argmax(1) == y).float().mean()},
        shards=[[0, 1], [2, 3]],
        batch_size=2,
    )
    ring = eg.topology("ring", 2)
    assert eg.train(problem, "dsgd_atc", ring, steps=200, lr=1.0).final["accuracy_averaged"] == 1
    blown = eg.train("least_squares", "dsgd_atc", ring, steps=2000, lr=1e9, record_every=1)
    assert blown.diverged and len(blown.curve)


@pytest.mark.parametrize(
    ("problem", "algorithm", "words"),
    [
        ("least_square", "dsgd_atc", "did you mean 'least_squares'"),
        ({"kind": "logistic", "dims": 3}, "dsgd_atc", "dims: unknown key; did you mean dim"),
        ("logistic", "dsgd_atk", "did you mean 'dsgd_atc'"),
        ("logistic", "psgd", "exact averaging"),
    ],
)
def test_what_does_not_fit_is_one_line(problem, algorithm, words):
    with pytest.raises(ValueError, match=words) as found:
        eg.train(problem, algorithm, eg.topology("ring", 4), steps=1, lr=0.1)
    assert "\n" not in str(found.value)


def test_results_are_data_frames_and_configs_experiments():
    tables = eg.load("results/table2")
    frame = tables["accuracy_averaged"]
    assert {"topology", "column", "mean", "half_width", "count", "runs"} <= set(frame)
    assert len(tables.runs) and set(tables.runs["status"]) <= {"done", "diverged", "missing"}
    assert eg.load("configs/table2.toml", ["seed=0"]).name == "table2"
    with pytest.raises(eg.ConfigError, match="neither a config"):
        eg.load("results")


def test_the_example_of_the_page_runs(capsys):
    page = Path("docs/api.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    exec(code, {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[1].startswith("one_peer_exponential")
