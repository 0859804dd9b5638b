"""A training loop of one's own, averaged by `eg.Averager` and by DistributedDataParallel.

    torchrun --nproc-per-node 4 scripts/own_training.py images     # a CNN on handwritten digits
    torchrun --nproc-per-node 4 scripts/own_training.py text       # a small transformer on our docs
    python scripts/own_training.py figure                          # of both, results/own_training/

`make examples` does all three. Every rank trains on its own shard; the loss is that of the mean
model on data that nobody trains on, so that all four ways are measured alike.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import expograph as eg

DDP = "fully_connected"  # how figures call parallel SGD
WAYS = (DDP, "one_peer_exponential", "static_exponential", "ring")
ROOT = Path(__file__).parents[1]
CONTEXT, SYMBOLS = 48, 128
Batches = Iterator[tuple[Tensor, Tensor]]


class Cnn(nn.Sequential):
    """Two convolutions for pictures of 8 by 8 points."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten()),
            nn.Linear(32 * 16, 10),
        )


class Transformer(nn.Module):
    """Predicts each next character from those before it."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.symbol, self.place = nn.Embedding(SYMBOLS, width), nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        embedded = self.symbol(x) + self.place.weight[: x.shape[1]]
        return self.head(self.layers(embedded, mask=mask, is_causal=True))


def images(rank: int, size: int) -> tuple[nn.Module, Batches, tuple[Tensor, Tensor]]:
    """A model, this rank's batches of digits, and 500 digits that nobody trains on."""
    found = load_digits()
    x = torch.tensor(found.images[:, None] / 16, dtype=torch.float32)
    y = torch.tensor(found.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    held_out, mine = order[:500], order[500 + rank :: size]
    draws = torch.Generator().manual_seed(1 + rank)

    def batches() -> Batches:
        while True:
            chosen = mine[torch.randint(len(mine), (16,), generator=draws)]
            yield x[chosen], y[chosen]

    return Cnn(), batches(), (x[held_out], y[held_out])


def text(rank: int, size: int) -> tuple[nn.Module, Batches, tuple[Tensor, Tensor]]:
    """A model, this rank's part of our documentation, and the last tenth, for nobody."""
    pages = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("*.md")])
    letters = "".join(page.read_text(encoding="utf-8") for page in pages).encode("ascii", "ignore")
    every = torch.tensor(list(letters)) % SYMBOLS
    train, test = every[: 9 * len(every) // 10], every[9 * len(every) // 10 :]
    mine = train[rank * len(train) // size : (rank + 1) * len(train) // size]
    draws = torch.Generator().manual_seed(1 + rank)

    def windows(of: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        cut = torch.stack([of[s : s + CONTEXT + 1] for s in starts.tolist()])
        return cut[:, :-1], cut[:, 1:]

    def batches() -> Batches:
        while True:
            yield windows(mine, torch.randint(len(mine) - CONTEXT, (8,), generator=draws))

    held_out = windows(test, torch.arange(0, len(test) - CONTEXT, len(test) // 40))
    return Transformer(), batches(), held_out


TASKS: dict[str, Callable[..., tuple]] = {"images": images, "text": text}


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())


def train(task: str, way: str, steps: int, every: int) -> list[dict]:
    """One way of averaging; what was measured every so many steps."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model, batches, (x, y) = TASKS[task](rank, size)
    trained, avg = model, None
    if way == DDP:
        trained = DistributedDataParallel(model)
    else:
        avg = eg.Averager(model, topology=way)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    parameters = sum(p.nbytes for p in model.parameters())
    rows, seconds = [], 0.0
    for step in range(steps + 1):
        if step % every == 0:
            measured = evaluate(model, avg, x, y)
            sent = avg.bytes_sent if avg else step * parameters * 2 * (size - 1) / size
            told = {"step": step, "loss": measured, "bytes": sent, "seconds": seconds}
            rows.append({"task": task, "way": way, **told})
        start = time.perf_counter()
        loss_of(trained, *next(batches)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if avg:
            avg.step()
        seconds += time.perf_counter() - start
    return rows


def evaluate(model: nn.Module, avg: "eg.Averager | None", x: Tensor, y: Tensor) -> float:
    """The held-out loss of the mean model."""
    if avg:
        with avg.mean_model():
            return evaluate(model, None, x, y)
    model.eval()
    with torch.no_grad():
        found = float(loss_of(model, x, y))
    model.train()
    return found


def draw(folder: Path) -> None:
    """The losses over steps, bytes and seconds."""
    from expograph.report import figures
    from expograph.report.style import legend_below, new_figure, training_style

    for task in TASKS:
        curves = pd.read_csv(folder / f"{task}.csv")
        figure, panels = new_figure(3, height=2.4)
        for ax, column, scale, label in zip(
            panels,
            ("step", "bytes", "seconds"),
            (1, 1e-6, 1),
            ("step", "MB sent by a rank", "seconds, this machine"),
            strict=True,
        ):
            for way, of_way in curves.groupby("way", sort=False):
                ax.plot(scale * of_way[column], of_way["loss"], **training_style(way))
            ax.set(xlabel=label, yscale="log")
        panels[0].set_ylabel("held-out loss, mean model")
        legend_below(figure, panels[0])
        figures.save(figure, folder / f"figure_{task}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*TASKS, "figure"])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=20, help="steps between two measurements")
    parser.add_argument("--results", type=Path, default=Path("results/own_training"))
    arguments = parser.parse_args()
    if arguments.what == "figure":
        return draw(arguments.results)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rows = [
        row for way in WAYS for row in train(arguments.what, way, arguments.steps, arguments.every)
    ]
    if dist.get_rank() == 0:
        arguments.results.mkdir(parents=True, exist_ok=True)
        table = pd.DataFrame(rows)
        table.to_csv(arguments.results / f"{arguments.what}.csv", index=False, float_format="%.6g")
        last = table.groupby("way", sort=False).last()
        print(last[["step", "loss", "bytes", "seconds"]].to_string())
        made = {
            "command": f"torchrun --nproc-per-node {dist.get_world_size()} scripts/own_training.py "
            f"{arguments.what} --steps {arguments.steps}",
            "torch": torch.__version__,
            "cores": os.cpu_count(),
            "seeds": "model and split 0, batches 1 + rank",
        }
        (arguments.results / f"{arguments.what}.json").write_text(json.dumps(made, indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
