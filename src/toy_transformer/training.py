"""Trains many initializations of one architecture side by side, on the same batches, each stopping by its own rule.

The weights of all models are stacked, and `torch.func.vmap` makes one forward pass of all of theirs, so that a
training step costs about as much for eight models as for one.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim.adamw import adamw

from toy_transformer import _gradients
from toy_transformer.data import Batch, from_counts
from toy_transformer.model import ModelConfig, Transformer

ADAMW = dict(beta2=0.999, eps=1e-8, amsgrad=False, maximize=False, fused=True)
"""The settings of AdamW that no training changes: torch's defaults, in one kernel."""

Weights = dict[str, Tensor]
"""The parameters of a model by name."""

OnEpoch = Callable[[int, int, float, float], None]
"""Is told the seed, the epoch, the training loss and the validation loss."""


@dataclass(frozen=True)
class TrainingConfig:
    """The optimizer's settings and the stopping rule.

    The learning rate falls linearly to `final_learning_rate` over `max_epochs`. From `first_stop_epoch`
    on, training stops when the validation loss is below `target_loss`, or when it has not been the least
    seen since then for `patience` epochs in a row. `weight_decay` is that of AdamW (Loshchilov and Hutter 2019): with
    each step every number also loses that part, times the learning rate, of itself. `beta1` is its momentum (Kingma
    and Ba 2015): the part of the mean gradient that stays in a step. Raises `ValueError` for settings that cannot be.
    """

    learning_rate: float = 1e-2
    final_learning_rate: float = 5e-3
    weight_decay: float = 1e-2
    beta1: float = 0.9
    max_epochs: int = 30
    first_stop_epoch: int = 5
    target_loss: float = 0.05
    patience: int = 3

    def __post_init__(self):
        for name in ("max_epochs", "first_stop_epoch", "patience"):
            number = getattr(self, name)
            if type(number) is not int or number < 1:
                raise ValueError(f"{name}={number!r}: expected a whole number of at least 1")
        for name in ("learning_rate", "final_learning_rate", "weight_decay", "target_loss"):
            number = getattr(self, name)
            if not isinstance(number, int | float) or not 0 <= number < math.inf:
                raise ValueError(f"{name}={number!r}: expected a finite number of at least 0")
        if not isinstance(self.beta1, int | float) or not 0 <= self.beta1 < 1:
            raise ValueError(f"beta1={self.beta1!r}: expected a number of at least 0 and below 1")
        if not 0 < self.learning_rate >= self.final_learning_rate:
            expected = "the first above 0, the second not above the first"
            rates = f"learning_rate={self.learning_rate}, final_learning_rate={self.final_learning_rate}"
            raise ValueError(f"{rates}: expected {expected}")


@dataclass(frozen=True)
class TrainedModel:
    """A model with the history of its training.

    `train_losses` and `validation_losses` have an entry for each epoch from 1 on: the sum of the losses of its
    strings, those of training as they are just before the step that learns from them. `weights` has one more,
    for epoch 0, the untrained model.
    """

    config: ModelConfig
    seed: int
    train_losses: list[float]
    validation_losses: list[float]
    weights: list[Weights]

    @property
    def best_epoch(self) -> int:
        """The epoch of the least validation loss; the earliest if there are several."""
        return 1 + self.validation_losses.index(min(self.validation_losses))

    @cached_property
    def model(self) -> Transformer:
        """The model at the best epoch, the same object each time: what is changed in it stays changed."""
        return self.model_at(self.best_epoch)

    def model_at(self, epoch: int) -> Transformer:
        """The model after an epoch, 0 for untrained. Raises `ValueError` for one that was not trained."""
        if epoch not in range(len(self.weights)):
            raise ValueError(f"epoch={epoch!r}: expected a whole number from 0 to {len(self.weights) - 1}")
        model = Transformer(self.config, self.seed)
        model.load_state_dict(self.weights[epoch])
        return model.eval().requires_grad_(False)

    def has_finished(self, rule: TrainingConfig) -> bool:
        """Say whether training stops after the epochs so far."""
        losses = self.validation_losses[rule.first_stop_epoch - 1 :]
        if len(self.validation_losses) >= rule.max_epochs:
            return True
        if not losses:
            return False
        return losses[-1] < rule.target_loss or len(losses) - 1 - losses.index(min(losses)) >= rule.patience


def train(
    models: Sequence[Transformer],
    training_epochs: Iterator[Iterable[Batch]],
    validation: Batch,
    training_config: TrainingConfig = TrainingConfig(),
    on_epoch: OnEpoch | None = None,
) -> list[TrainedModel]:
    """Train models side by side; give their histories in their order, and leave the models as they are.

    `training_epochs` gives the batches of one epoch after another, and is read only as far as needed; `on_epoch` is
    told how each went. Parameters that do not require a gradient are frozen: they stay as they are. With dropout,
    what is dropped depends on which models are trained together. Raises `ValueError` for no models, for models that
    differ in more than their initialization or in what is frozen, and where all is frozen.
    """
    architectures = {model.config.architecture for model in models}
    if len(architectures) != 1:
        raise ValueError(f"{len(architectures)} architectures: expected models of one, at least one model")
    histories = [TrainedModel(model.config, model.seed, [], [], [_copy(model)]) for model in models]
    running = list(histories)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(models[0].seed)
        stack = _Stack(models, training_config)
        while running:
            train_losses = torch.stack([stack.step(batch) for batch in next(training_epochs)]).double().sum(dim=0)
            validation_losses = stack.evaluate(validation).double()
            stack.lower_rate()
            for i, history in enumerate(running):
                history.train_losses.append(train_losses[i].item())
                history.validation_losses.append(validation_losses[i].item())
                history.weights.append({name: weight[i].detach().clone() for name, weight in stack.weights.items()})
                if on_epoch:
                    epoch = len(history.train_losses)
                    on_epoch(history.seed, epoch, history.train_losses[-1], history.validation_losses[-1])
            keep = [i for i, history in enumerate(running) if not history.has_finished(training_config)]
            running = [running[i] for i in keep]
            stack.keep(keep)
    return histories


class _Stack:
    """The models that are still being trained: their weights, stacked, and the optimizer of all."""

    def __init__(self, models: Sequence[Transformer], config: TrainingConfig):
        self.template = Transformer(models[0].config).train()
        frozen = {frozenset(name for name, p in model.named_parameters() if not p.requires_grad) for model in models}
        if len(frozen) != 1:
            raise ValueError("expected models with the same frozen parameters")
        self.weights, _ = stack_module_state(models)
        self.trainable = {name: weight for name, weight in self.weights.items() if weight.requires_grad}
        if not self.trainable:
            raise ValueError("all parameters are frozen: expected one that requires a gradient")
        self.config, self.rate, self.epoch = config, config.learning_rate, 0
        # torch.optim.AdamW does the same with these, and takes seconds to load PyTorch's compiler first.
        self.means, self.squares = ([torch.zeros_like(w) for w in self.trainable.values()] for _ in range(2))
        self.steps = [torch.zeros(()) for _ in self.trainable]

    def losses(self, batch: Batch) -> Float[Tensor, "model"]:
        """The mean loss over a batch, for each model."""
        inputs = (*from_counts(batch.counts), 1)

        def logits_of(weights: Weights) -> Float[Tensor, "batch"]:
            return functional_call(self.template, weights, inputs).output_logits

        logits = vmap(logits_of, randomness="different")(self.weights)
        labels = batch.labels.to(logits.dtype).expand_as(logits)
        return binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(dim=-1)

    def step(self, batch: Batch) -> Float[Tensor, "model"]:
        """Take one step of AdamW; give batch size × mean loss before it, for each model."""
        weights = [*self.trainable.values()]
        if _gradients.is_written_out(self.template.config):
            losses, derivatives = _gradients.differentiate(self.weights, self.template.config, batch)
            gradients = [derivatives[name] for name in self.trainable]
        else:
            losses = self.losses(batch)
            # The fused kernel goes through memory in order, whatever the strides.
            gradients = [gradient.contiguous() for gradient in torch.autograd.grad(losses.sum(), weights)]
        rates = dict(lr=self.rate, beta1=self.config.beta1, weight_decay=self.config.weight_decay)
        with torch.no_grad():
            adamw(weights, gradients, self.means, self.squares, [], self.steps, **ADAMW, **rates)
        return losses.detach() * len(batch.labels)

    def lower_rate(self) -> None:
        """Go on to the learning rate of the next epoch, in the way of torch's `LinearLR`, to the last bit."""
        change = self.config.final_learning_rate / self.config.learning_rate - 1
        self.rate *= 1 + change / (self.config.max_epochs + self.epoch * change)
        self.epoch += 1

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Float[Tensor, "model"]:
        """Give batch size × mean loss, for each model."""
        self.template.eval()
        losses = self.losses(batch)
        self.template.train()
        return losses * len(batch.labels)

    def keep(self, indices: list[int]):
        """Drop all other models, and what the optimizer remembers of them."""
        for weight in self.weights.values():
            weight.data = weight.data[indices]
        self.means, self.squares = ([x[indices] for x in each] for each in (self.means, self.squares))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: tensors this small are slower with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _copy(model: Transformer) -> Weights:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
