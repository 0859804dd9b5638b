"""Training on real images against one torch module a worker, and evaluation that counts right."""

import copy

import numpy as np
import pytest
import torch

from expograph.config import Run
from expograph.graphs.topology import build
from expograph.problems import classification
from expograph.problems.classification import ImageClassification
from expograph.runs.assemble import assemble, records_of


def digits(nodes: int = 4, **changes) -> Run:
    problem = {"kind": "classification", "dataset": "digits", "model": "cnn", "batch_size": 8}
    values = {
        "problem": problem | changes.pop("problem", {}),
        "topology": "static_exponential",
        "nodes": nodes,
        "algorithm": "vanilla_dmsgd",
        "steps": 8,
        "lr": 0.05,
        "beta": 0.9,
        "record_every": 4,
    }
    return Run.model_validate(values | changes)


def of(run: Run, ranks=None) -> ImageClassification:
    """The run's problem, for all ranks or some."""
    return ImageClassification(run.problem, run.ranks, ranks or range(run.ranks), run.seed)


def metrics(problem: ImageClassification, x, buffers, final: bool) -> dict[str, float]:
    """What `train` records of models x (n, d), all of them held here."""
    mean = x.mean(dim=0)
    measured = problem.measure(x, buffers, mean, buffers.mean(dim=0), final)
    return problem.evaluate(mean, measured, final)


def accuracy(problem: ImageClassification, x, buffers) -> float:
    """Of one model (d,) on all test images at once, in per cent."""
    d = problem.dataset
    logits = problem.model.predict(x, buffers, problem.images.test(np.arange(len(d.test_labels))))
    return 100 * int((logits.argmax(dim=1).numpy() == d.test_labels).sum()) / len(d.test_labels)


@pytest.mark.parametrize("topology", ["ring", "one_peer_exponential", "half_random"])
@pytest.mark.parametrize("model", ["mlp", "cnn", "resnet8_bn"])
def test_training_equals_one_module_and_optimizer_a_worker(model, topology):
    """torch.optim.SGD with momentum and weight decay on each worker, then the dense W."""
    run = digits(topology=topology, problem={"model": model, "weight_decay": 0.01})
    assembly = assemble(run)
    problem, (*_, last) = assembly.problem, assembly.records()

    first = copy.deepcopy(problem.model._module).train()
    vector = torch.nn.utils.vector_to_parameters
    vector(problem.initial()[0], first.parameters())
    for name, buffer in first.named_buffers():
        buffer.fill_(float("running_var" in name))
    workers = [copy.deepcopy(first) for _ in range(4)]
    optimizers = []
    for worker in workers:
        matrices = [p for p in worker.parameters() if p.ndim > 1]
        others = [p for p in worker.parameters() if p.ndim <= 1]
        groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others}]
        optimizers.append(torch.optim.SGD(groups, lr=0.05, momentum=0.9))
    for k in range(run.steps):
        samples = problem.batches.at(k)
        for i, (worker, optimizer) in enumerate(zip(workers, optimizers, strict=True)):
            images = problem.images.train(samples[i : i + 1], [])[0]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(
                worker(images), problem._labels[samples[i]]
            ).backward()
            optimizer.step()
        W = torch.from_numpy(build(topology, 4, run.seed).at(k).dense()).float()
        rows = torch.stack([torch.nn.utils.parameters_to_vector(w.parameters()) for w in workers])
        with torch.no_grad():
            for worker, row in zip(workers, W @ rows, strict=True):
                vector(row, worker.parameters())
    expected = torch.stack([torch.nn.utils.parameters_to_vector(w.parameters()) for w in workers])
    torch.testing.assert_close(last.x, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 128, 1000])
def test_every_test_sample_counts_once_whatever_the_batch(monkeypatch, chunk):
    problem = of(digits(problem={"model": "linear"}))
    x, buffers = problem.initial()
    x = x + torch.randn(len(x), generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(classification, "TEST_CHUNK", chunk)
    found = metrics(problem, x.repeat(4, 1), buffers.repeat(4, 1), final=True)

    weight, bias = x[:640].view(10, 64).double(), x[640:].double()
    d = problem.dataset
    pixels = torch.from_numpy(d.test_images.reshape(len(d.test_labels), 64)).double()
    logits = ((pixels / d.scale - d.mean[0]) / d.std[0]) @ weight.T + bias
    correct = (logits.argmax(dim=1).numpy() == d.test_labels).sum()
    assert found["accuracy_averaged"] == 100 * correct / len(d.test_labels)
    assert found["accuracy_worker_worst"] == found["accuracy_worker_best"]
    assert found["accuracy_worker_mean"] == pytest.approx(found["accuracy_averaged"])


@pytest.mark.parametrize("nodes", [1, 3, 7, 16])
def test_accuracy_of_a_fixed_model_does_not_depend_on_the_nodes(nodes):
    problem = of(digits(nodes))
    x, buffers = problem.initial()  # equal for all n: the seed alone sets it
    found = metrics(problem, x.repeat(nodes, 1), buffers.repeat(nodes, 1), final=False)
    one = of(digits(1))
    alone = metrics(one, *(t.unsqueeze(0) for t in one.initial()), final=False)
    assert found == pytest.approx(alone, rel=1e-6)
    assert found["accuracy_averaged"] == alone["accuracy_averaged"]


def test_averaged_worst_and_mean_are_of_the_models_they_name():
    problem = of(digits(problem={"model": "linear"}))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, problem.model.dim, generator=generator)
    empty = torch.empty(4, 0)
    single = [accuracy(problem, row, empty[0]) for row in x]
    found = metrics(problem, x, empty, final=True)
    assert found["accuracy_worker_worst"] == min(single)
    assert found["accuracy_worker_best"] == max(single)
    assert found["accuracy_worker_mean"] == pytest.approx(np.mean(single))
    assert found["accuracy_averaged"] == accuracy(problem, x.mean(dim=0), empty[0])


def test_batch_norm_statistics_stay_with_their_worker_and_are_averaged_for_the_mean():
    run = digits(problem={"model": "resnet8_bn", "partition": "label"})
    problem = of(run)
    x0, b0 = problem.initial()
    _, _, buffers = problem.gradient(x0.repeat(4, 1), b0.repeat(4, 1), 0)
    assert len({tuple(row.tolist()) for row in buffers}) == 4
    found = metrics(problem, x0.repeat(4, 1), buffers, final=False)
    assert found["accuracy_averaged"] == accuracy(problem, x0, buffers.mean(dim=0))
    assert "mean of the workers' running statistics" in problem.describe()["batch_norm"]


def test_a_rank_alone_computes_its_row_of_the_whole():
    whole = of(digits())
    alone = of(digits(), [2])
    x, b = (t.repeat(4, 1) for t in whole.initial())
    for k in (0, 50):
        ours, theirs = whole.gradient(x, b, k), alone.gradient(x[:1], b[:1], k)
        torch.testing.assert_close(ours[1][2:3], theirs[1], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(ours[0][2:3], theirs[0])


def test_accumulation_is_one_larger_batch_and_one_step_of_the_topology():
    """Four batches of 8 are the batch of 32, W(k) moves on once a step, bytes count once."""
    topology = "one_peer_exponential"
    once = digits(8, topology=topology, problem={"batch_size": 32})
    four = digits(8, topology=topology, problem={"batch_size": 8, "accumulation": 4})
    *_, a = records_of(once)
    *_, b = records_of(four)
    torch.testing.assert_close(a.x, b.x, rtol=1e-4, atol=1e-5)
    assert a.values["bytes_sent_max"] == b.values["bytes_sent_max"]
    assert a.values["train_loss"] == pytest.approx(b.values["train_loss"], rel=1e-5)


def test_metrics_are_not_counted_as_communication_and_runs_repeat():
    often = [r.values for r in records_of(digits(evaluate_every=1, record_every=1))]
    seldom = [r.values for r in records_of(digits())]
    assert often[-1]["bytes_sent_max"] == seldom[-1]["bytes_sent_max"]
    assert often[-1]["accuracy_averaged"] == seldom[-1]["accuracy_averaged"]
    assert often[-1]["train_loss"] == seldom[-1]["train_loss"]
