"""For Lightning: a strategy whose workers average their models with neighbours.

    Trainer(accelerator="cpu", devices=4, strategy=Decentralized(topology="one_peer_exponential"))

Validation and tests are of each rank's own model, unless `MeanModel()` is among the callbacks.
"""

from contextlib import ExitStack
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy
from torch.optim import Optimizer

from expograph.averager.averager import Averager


class Decentralized(DDPStrategy):
    """Processes as DDPStrategy starts them; gradients stay local, models are averaged.

    Attributes:
        averager: from the start of a fit on.
    """

    strategy_name = "decentralized"

    def __init__(self, process_group_backend: str | None = None, **options: Any) -> None:
        """Take the options of `Averager`, without model and optimizer.

        Raises:
            ValueError: for overlap="backward": Lightning steps the optimizer.
        """
        if options.get("overlap") == "backward":
            raise ValueError("overlap: Lightning steps the optimizer; use None or 'forward'")
        super().__init__(process_group_backend=process_group_backend)
        self._options = options
        self.averager: Averager | None = None

    def configure_ddp(self) -> None:
        self.averager = Averager(self.lightning_module, **self._options)

    def optimizer_step(self, optimizer: Optimizer, *arguments: Any, **options: Any) -> Any:
        output = super().optimizer_step(optimizer, *arguments, **options)
        if optimizer is self.optimizers[-1]:
            assert self.averager is not None, "a fit begins with configure_ddp"
            self.averager.step()
        return output


class MeanModel(Callback):
    """Validate and test the exact average of all ranks' models, and end the fit with it."""

    def __init__(self) -> None:
        self._inside = ExitStack()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        averager = getattr(trainer.strategy, "averager", None)
        if averager:
            self._inside.enter_context(averager.mean_model())

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._inside.close()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.strategy.averager.synchronize()
