"""What a rank does in test_frameworks.py: the averager in somebody else's training loop.

Every case trains a linear model on data of the rank and tells whether local models drifted apart
(gradients stayed local) while the graph averaged them, and agree at the end.
"""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS, ACCUMULATED = 6, 2


class Data(Dataset):
    """Targets that differ from item to item."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> dict:
        draws = torch.Generator().manual_seed(i)
        x = torch.randn(4, generator=draws)
        return {"x": x, "labels": x.sum() + i % 7}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None, **_: object) -> dict:
        out = self.linear(x).squeeze(-1)
        return {"loss": nn.functional.mse_loss(out, labels), "logits": out}


def accelerate() -> dict:
    from accelerate import Accelerator

    from expograph.averager import Averager

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Data(), 1))
    avg = Averager(model, topology="ring")
    apart = 0.0
    for batch in list(loader)[: STEPS * ACCUMULATED]:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            apart = max(apart, avg.consensus_distance())
            avg.step()
    avg.synchronize()
    return {"steps": avg.position, "apart": apart, "end": avg.consensus_distance()}


def trainer() -> dict:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from expograph.averager.hugging_face import Decentralized

    class Look(TrainerCallback):
        apart = 0.0

        def on_optimizer_step(self, args, state, control, **_: object) -> None:
            self.apart = max(self.apart, averaging.averager.consensus_distance())

    arguments = TrainingArguments(
        output_dir=sys.argv[2],
        max_steps=STEPS,
        learning_rate=0.05,
        optim="sgd",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=ACCUMULATED,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    made = Trainer(Model(), arguments, train_dataset=Data())
    averaging, look = Decentralized(made, topology="ring"), Look()
    made.add_callback(averaging)
    made.add_callback(look)
    made.train()
    avg = averaging.averager
    return {"steps": avg.position, "apart": look.apart, "end": avg.consensus_distance()}


def lightning() -> dict:
    import lightning.pytorch as pl

    from expograph.averager.lightning import Decentralized, MeanModel

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.apart, self.validated = Model(), 0.0, 1.0

        def training_step(self, batch: dict, _: int) -> torch.Tensor:
            return self.model(**batch)["loss"]

        def on_train_batch_end(self, *_: object) -> None:
            self.apart = max(self.apart, strategy.averager.consensus_distance())

        def validation_step(self, batch: dict, _: int) -> None:
            self.validated = strategy.averager.consensus_distance()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    strategy, module = Decentralized(topology="ring", process_group_backend="gloo"), Module()
    made = pl.Trainer(
        accelerator="cpu",
        devices=4,
        strategy=strategy,
        max_steps=STEPS,
        accumulate_grad_batches=ACCUMULATED,
        callbacks=[MeanModel()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        val_check_interval=4,
    )
    made.fit(module, DataLoader(Data(), 1), DataLoader(Data(), 16))
    avg = strategy.averager
    end = avg.consensus_distance()
    return {"steps": avg.position, "apart": module.apart, "end": max(end, module.validated)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    told = globals()[sys.argv[1]]()
    if torch.distributed.get_rank() == 0:
        print("\n" + json.dumps(told), flush=True)
