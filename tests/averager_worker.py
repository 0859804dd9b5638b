"""What a rank does in test_averager.py: every case in one job, against dense matrices.

Each case returns how far the averager is from its formula; rank 0 prints them all as JSON.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

from expograph import algorithms
from expograph.averager import Averager
from expograph.graphs.topology import build

BACKEND = sys.argv[1]
OTHER = {"backend": BACKEND}
torch.set_num_threads(1)


def every(avg: Averager, tensor: torch.Tensor) -> torch.Tensor:
    """All ranks' values of a tensor, (n, d), in double precision."""
    row = tensor.detach().double().reshape(1, -1)
    return avg._group.gather(row, "a test")


def weights(avg: Averager, k: int) -> torch.Tensor:
    return torch.from_numpy(avg.schedule.at(k).dense())


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-12))


class Odd(nn.Module):
    """Tied weights, channels-last, a frozen layer, batch norm, an unused parameter, two types."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1).to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm2d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.unused = nn.Parameter(torch.ones(3))
        self.wide = nn.Parameter(torch.zeros(4, dtype=torch.float64))
        self.transposed = nn.Parameter(torch.randn(4, 2).t())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x)).mean(dim=(2, 3))
        y = self.b(torch.relu(self.a(self.frozen(y)))) + self.wide.float()
        return y @ self.transposed.t()


def train(model: nn.Module, avg: Averager, k: int) -> None:
    """A gradient at data of this rank and step."""
    draws = torch.Generator().manual_seed(100 * k + avg.rank)
    model(torch.randn(6, 1, 5, 5, generator=draws)).square().mean().backward()


def model_of(avg_rank: int) -> Odd:
    torch.manual_seed(avg_rank)
    return Odd()


def blocking() -> float:
    """x <- W(k) x, of every parameter and buffer, from rank 0's model on."""
    model = model_of(RANK)
    avg = Averager(model, topology="static_exponential", **OTHER)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    worst = apart(every(avg, model.conv.weight), every(avg, model.conv.weight)[:1])
    frozen = model.frozen.weight.clone()
    for k in range(5):
        train(model, avg, k)
        optimizer.step()
        optimizer.zero_grad()
        found = [*model.parameters(), model.norm.running_mean, model.norm.running_var]
        before = [every(avg, t) for t in found]
        avg.step()
        for x, t in zip(before, found, strict=True):
            worst = max(worst, apart(every(avg, t), weights(avg, k) @ x))
        worst = max(worst, float(model.norm.num_batches_tracked != k + 1))
    assert model.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert model.a.weight is model.b.weight and not model.transposed.is_contiguous()
    assert torch.equal(frozen, model.frozen.weight) and avg.position == 5
    return worst


def local_buffers() -> float:
    model = model_of(RANK)
    avg = Averager(model, buffers="local", **OTHER)
    model.norm.running_mean += RANK
    avg.step()
    return apart(model.norm.running_mean, torch.full((4,), float(RANK)))


def forward() -> float:
    """x <- W(k) x_old + (what the optimizer added), the message of x_old on its way meanwhile."""
    model = model_of(RANK)
    avg = Averager(model, overlap="forward", broadcast=False, **OTHER)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    found = [p for p in model.parameters() if p.requires_grad]
    worst = 0.0
    for k in range(5):
        old = [every(avg, t) for t in found]
        for _ in range(2):  # accumulated
            train(model, avg, k)
        optimizer.step()
        optimizer.zero_grad()
        new = [every(avg, t) for t in found]
        avg.step()
        for x, y, t in zip(old, new, found, strict=True):
            worst = max(worst, apart(every(avg, t), weights(avg, k) @ x + y - x))
    return worst


def backward() -> float:
    """As blocking, whatever the optimizer; with a schedule of step sizes and accumulation."""
    worst = 0.0
    for make in (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
        lambda p: torch.optim.AdamW([{"params": p[:2]}, {"params": p[2:], "lr": 0.01}], lr=0.02),
    ):
        twins = []
        for overlap in (None, "backward"):
            model = model_of(RANK)
            optimizer = make([p for p in model.parameters() if p.requires_grad])
            given = optimizer if overlap else None
            avg = Averager(model, given, overlap=overlap, bucket_mb=1e-4, **OTHER)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
            for k in range(5):
                with avg.no_sync():
                    train(model, avg, 50 + k)
                train(model, avg, k)
                if not overlap:
                    optimizer.step()
                avg.step()
                optimizer.zero_grad()
                scheduler.step()
            twins.append(model)
            if overlap:
                assert len(avg._how.buckets) > 3 and len(optimizer.state_dict()["state"]) > 4
                try:
                    optimizer.step()
                    raise AssertionError("the user's own step was not refused")
                except RuntimeError:
                    pass
        for a, b in zip(*(twin.state_dict().values() for twin in twins), strict=True):
            worst = max(worst, apart(b.double(), a.double()))
    return worst


def rules() -> float:
    """The three overlaps are the rules of `expograph.algorithms`, over n rows at once."""
    worst = 0.0
    d, n = 6, SIZE
    target = torch.randn(n, d, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    for overlap, rule, beta in (
        (None, "dsgd_atc", 0.0),
        ("forward", "dsgd_awc", 0.0),
        ("backward", "vanilla_dmsgd", 0.9),
    ):
        x = nn.Parameter(torch.zeros(d, dtype=torch.float64))
        model = nn.Module()
        model.x = x
        optimizer = torch.optim.SGD([x], lr=0.1, momentum=beta)
        given = optimizer if overlap == "backward" else None
        avg = Averager(model, given, topology="ring", overlap=overlap, **OTHER)
        algorithm = algorithms.build(rule)
        state = algorithm.init(torch.zeros(n, d, dtype=torch.float64))
        for k in range(20):
            (0.5 * (x - target[RANK]).square().sum()).backward()
            if not given:
                optimizer.step()
            avg.step()
            optimizer.zero_grad()
            W = weights(avg, k)
            mix = algorithms.Mix(lambda *a, W=W: lambda: _one([W @ v for v in a]))
            state = algorithm.step(state, lambda v: v - target, mix, 0.1, beta)
        worst = max(worst, apart(every(avg, x), algorithm.model(state)))
    return worst


def _one(rows: list) -> object:
    return rows[0] if len(rows) == 1 else tuple(rows)


def halves() -> float:
    """bfloat16 models: averaged in single precision and rounded once."""
    model = nn.Linear(8, 8).bfloat16()
    torch.manual_seed(RANK)
    nn.init.normal_(model.weight)
    avg = Averager(model, broadcast=False, topology="static_exponential", **OTHER)
    before = every(avg, model.weight)
    avg.step()
    exact = (weights(avg, 0) @ before).float().bfloat16().double()
    different = float((every(avg, model.weight) != exact).double().mean())
    return different if different > 0.02 else 0.0  # sums in another order round ties otherwise


def wire() -> float:
    """|error| <= sum over the others of W_ij 2^-8 |x_j| for bfloat16, 2^-11 for float16."""
    if BACKEND == "bluefog" or SIZE == 1:
        return 0.0
    worst = 0.0
    for kind, bits in ((torch.bfloat16, 8), (torch.float16, 11)):
        torch.manual_seed(RANK)
        model = nn.Linear(30, 30)
        avg = Averager(model, wire=kind, broadcast=False, **OTHER)
        before = every(avg, model.weight)
        avg.step()
        W = weights(avg, 0)
        error = (every(avg, model.weight) - W @ before).abs()
        bound = (W - torch.diag(W.diag())) @ before.abs() * 2.0**-bits + 1e-7
        worst = max(worst, float((error / bound).max()))
        assert error.max() > 1e-5  # it was rounded
        messages = avg.schedule.at(0).messages[RANK]
        assert avg.bytes_sent == messages * 2 * sum(p.numel() for p in model.parameters())
    return max(0.0, worst - 1)


def local_steps() -> float:
    """Every third call averages; SGD with lr = 1 as outer optimizer is the average itself."""
    worst = 0.0
    for outer in (None, lambda p: torch.optim.SGD(p, lr=1.0)):
        torch.manual_seed(0)
        model = nn.Linear(3, 3)
        avg = Averager(model, every=3, outer=outer, **OTHER)
        for call in range(1, 7):
            with torch.no_grad():
                model.weight += 0.1 * (RANK + call)
            before = every(avg, model.weight)
            avg.step()
            W = weights(avg, call // 3 - 1) if call % 3 == 0 else torch.eye(SIZE).double()
            worst = max(worst, apart(every(avg, model.weight), W @ before))
        assert avg.position == 2
    return worst


def outer_step() -> float:
    """a <- a - 0.5 (a - W x), then with momentum."""
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    make = lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9)  # noqa: E731
    avg = Averager(model, outer=make, **OTHER)
    anchor, momentum, worst = every(avg, model.weight), 0.0, 0.0
    for k in range(4):
        with torch.no_grad():
            model.weight += 0.1 * (RANK + k)
        mixed = weights(avg, k) @ every(avg, model.weight)
        momentum = 0.9 * momentum + (anchor - mixed)
        anchor = anchor - 0.5 * momentum
        avg.step()
        worst = max(worst, apart(every(avg, model.weight), anchor))
    return worst


def means() -> float:
    """consensus_distance, mean_model (and back), synchronize."""
    model = model_of(RANK)
    avg = Averager(model, broadcast=False, **OTHER)
    x = torch.cat([every(avg, p) for p in model.parameters() if p.requires_grad], dim=1)
    distance = float((x - x.mean(0)).square().sum(1).mean())
    worst = abs(avg.consensus_distance() - distance) / max(distance, 1.0)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    mean = every(avg, model.a.weight).mean(0)
    images = [torch.randn(6, 1, 5, 5) for _ in range(2)]
    with avg.mean_model(recalibrate=images) as averaged:
        worst = max(worst, apart(averaged.a.weight.detach().double().flatten(), mean))
        assert int(model.norm.num_batches_tracked) == 2
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    avg.synchronize()
    worst = max(worst, apart(model.a.weight.detach().double().flatten(), mean))
    return max(worst, avg.consensus_distance())


def resumed() -> float:
    """Saved after three steps and gone on with, as one that was never stopped."""
    worst = 0.0
    for overlap in (None, "forward"):
        model = model_of(RANK)
        avg = Averager(model, overlap=overlap, topology="random_match", **OTHER)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for k in range(6):
            if k == 3:
                saved = model.state_dict(), avg.state_dict()
                saved = {key: t.clone() for key, t in saved[0].items()}, saved[1]
            train(model, avg, k)
            optimizer.step()
            optimizer.zero_grad()
            avg.step()
        again = model_of(RANK + 50)
        again.load_state_dict(saved[0])
        avg = Averager(again, overlap=overlap, topology="random_match", broadcast=False, **OTHER)
        avg.load_state_dict(saved[1])
        optimizer = torch.optim.SGD([p for p in again.parameters() if p.requires_grad], lr=0.1)
        for k in range(3, 6):
            train(again, avg, k)
            optimizer.step()
            optimizer.zero_grad()
            avg.step()
        for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
            worst = max(worst, apart(a.double(), b.double()))
    return worst


def nodes() -> float:
    """Nodes of two ranks: exact inside, the topology between."""
    if SIZE % 2:
        return 0.0
    model = model_of(RANK)
    avg = Averager(model, local_size=2, broadcast=False, **OTHER)
    worst = 0.0
    for k in range(2):
        before = every(avg, model.a.weight)
        avg.step()
        worst = max(worst, apart(every(avg, model.a.weight), weights(avg, k) @ before))
    return worst


def refused() -> float:
    """Ranks with other models, other topologies; a state of another schedule."""
    if SIZE == 1:
        return 0.0
    said = []
    for make in (
        lambda: Averager(nn.Linear(2, 2 + (RANK == 1)), **OTHER),
        lambda: Averager(nn.Linear(2, 2), topology="ring" if RANK else "star", **OTHER),
        lambda: Averager(nn.Linear(2, 2), **OTHER).load_state_dict({"topology": "x", "size": 1}),
    ):
        try:
            make()
        except ValueError as e:
            said.append(str(e))
    ring, star = build("ring", SIZE).name, build("star", SIZE).name
    assert said == [
        "rank 1 has another model than rank 0: a tensor of torch.float32 [3, 2], "
        "not torch.float32 [2, 2]",
        f"rank 1 has another topology than rank 0: {ring!r}, not {star!r}",
        "the state has topology x, this averager one_peer_exponential",
    ], said
    return 0.0


CASES = (blocking, local_buffers, forward, backward, rules, halves, wire, local_steps)
CASES += (outer_step, means, resumed, nodes, refused)

if __name__ == "__main__":
    if BACKEND == "torch":
        dist.init_process_group("gloo")
        RANK, SIZE = dist.get_rank(), dist.get_world_size()
    else:
        RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
        SIZE = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    told = {case.__name__: case() for case in CASES}
    if RANK == 0:
        print(json.dumps(told), flush=True)
    if BACKEND == "torch":
        dist.destroy_process_group()
