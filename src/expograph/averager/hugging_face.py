"""For Hugging Face's Trainer: a callback.

    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.add_callback(Decentralized(trainer, topology="one_peer_exponential"))

With Accelerate no more is needed than `Averager(accelerator.prepare(model))`.
"""

from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from expograph.averager.averager import Averager


class Decentralized(TrainerCallback):
    """Averages after each of the optimizer's steps, and exactly at the end.

    Attributes:
        averager: from the start of the training on.
    """

    def __init__(self, trainer: Trainer, **options: Any) -> None:
        """Take the options of `Averager`, without model and optimizer.

        Raises:
            ValueError: for overlap="backward": the Trainer steps the optimizer.
        """
        if options.get("overlap") == "backward":
            raise ValueError("overlap: the Trainer steps the optimizer; use None or 'forward'")
        self._trainer, self._options = trainer, options
        self.averager: Averager | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.averager = Averager(self._trainer.model_wrapped, **self._options)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        assert self.averager is not None, "a training begins with on_train_begin"
        self.averager.step()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        assert self.averager is not None, "a training begins with on_train_begin"
        self.averager.synchronize()
