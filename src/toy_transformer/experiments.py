"""The named experiments: which models are trained on which data, and what they get wrong.

A further experiment is one entry in `EXPERIMENTS`.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from toy_transformer.data import FixedLengthStrings, VariableLengthStrings, concatenate
from toy_transformer.evaluation import TestResult, evaluate
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.training import OnEpoch, TrainedModel, TrainingConfig, train

TRAINING_DATA = VariableLengthStrings(max_length=10, alpha=1.0, epoch_size=10_000, batch_size=64, seed=0)
FIXED_LENGTH_TRAINING_DATA = FixedLengthStrings(length=9, batch_size=64, seed=0)
VALIDATION_DATA = VariableLengthStrings(max_length=50, alpha=0.5, epoch_size=1_000, batch_size=64, seed=0)
TEST_DATA = VariableLengthStrings(max_length=200, alpha=0.1, epoch_size=10_000, batch_size=256, seed=2)

Strings = VariableLengthStrings | FixedLengthStrings


class Data(NamedTuple):
    """The strings of training, validation and test."""

    training: Strings = TRAINING_DATA
    validation: Strings = VALIDATION_DATA
    test: Strings = TEST_DATA


@dataclass(frozen=True)
class Experiment:
    """Models of one configuration that differ in the seed of their initialization, and what and how they learn.

    The `title` says in a picture how they differ from others.
    """

    seeds: Sequence[int] = range(8)
    model: ModelConfig = ModelConfig()
    data: Data = Data()
    training: TrainingConfig = TrainingConfig()
    title: str = "2 numbers, 2 heads"


_SMALL_OUTPUTS = ModelConfig(
    hidden_size=16, attention_output_init="output_fan_out", feed_forward_output_init="output_fan_out"
)
_LOWER_MAGNITUDE = replace(_SMALL_OUTPUTS, embedding_init="linear_like")

EXPERIMENTS = {
    "walkthrough": Experiment(seeds=[5]),
    "generalization_errors": Experiment(seeds=[2]),
    "all_initializations": Experiment(),
    "attend_cls": Experiment(seeds=[8], model=ModelConfig(attend_cls=True), title="CLS attends to itself"),
    "all_fixed_length_sequences": Experiment(
        seeds=[0, 1], data=Data(FIXED_LENGTH_TRAINING_DATA), title="strings of nine letters"
    ),
    "increased_dimensionality": Experiment(model=ModelConfig(hidden_size=16), title="16 numbers, 2 heads"),
    "lower_magnitude_initializations": Experiment(model=_LOWER_MAGNITUDE, title="16 numbers, 2 heads, small start"),
    "default_embeddings_initialization": Experiment(
        model=_SMALL_OUTPUTS, title="16 numbers, 2 heads, W_O and W_out small"
    ),
    "increased_num_attention_heads": Experiment(
        model=replace(_LOWER_MAGNITUDE, num_attention_heads=16), title="16 numbers, 16 heads, small start"
    ),
}

IDEAS = {name: idea for name, idea in EXPERIMENTS.items() if name not in ("walkthrough", "generalization_errors")} | {
    "16 heads": Experiment(model=ModelConfig(hidden_size=16, num_attention_heads=16), title="16 numbers, 16 heads"),
    "no weight decay": Experiment(
        model=ModelConfig(hidden_size=16),
        training=TrainingConfig(weight_decay=0.0),
        title="16 numbers, 2 heads, no weight decay",
    ),
}
"""What may help, beside the usual training (`all_initializations`): the published experiments, and two of ours."""


@dataclass(frozen=True)
class Run(TrainedModel, TestResult):
    """A trained model and what it got wrong on the test strings."""


Initialization = tuple[ModelConfig, int]


def run(name: str, on_epoch: OnEpoch | None = None, training_config: TrainingConfig = TrainingConfig()) -> list[Run]:
    """Train and test the models of an experiment; give one run for each model seed.

    `on_epoch` is told the seed, the epoch and the losses after each epoch; `print_losses` is one to pass.
    Raises `ValueError` for an unknown name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment {name!r}: expected one of {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    initializations = [(experiment.model, seed) for seed in experiment.seeds]
    return train_and_test(experiment.data, initializations, on_epoch, training_config)


def retrain(
    models: Sequence[Transformer], training_config: TrainingConfig, training: VariableLengthStrings = TRAINING_DATA
) -> list[TrainedModel]:
    """Train models of one architecture, side by side, from where they are; they stay as they are.

    The strings are such as `training`, of the task of the models.
    """
    copies = [copy.deepcopy(model).float().requires_grad_() for model in models]
    training, validation = (replace(data, task=models[0].config.task) for data in (training, VALIDATION_DATA))
    return train(copies, training.epochs(), concatenate(next(validation.epochs())), training_config)


def train_and_test(
    data: Data,
    initializations: Sequence[Initialization],
    on_epoch: OnEpoch | None = None,
    training_config: TrainingConfig = TrainingConfig(),
) -> list[Run]:
    """Train models of one architecture side by side on strings of their task, and test them; give their runs.

    `on_epoch` is as for `run`.
    """
    models = [Transformer(config, seed) for config, seed in initializations]
    training, validation, test = (replace(strings, task=models[0].config.task).epochs() for strings in data)
    histories = train(models, training, concatenate(next(validation)), training_config, on_epoch)
    test_strings = concatenate(next(test))
    return [_as_run(history, evaluate(history.model, test_strings)) for history in histories]


def _as_run(history: TrainedModel, result: TestResult) -> Run:
    return Run(**vars(result), **{field.name: getattr(history, field.name) for field in fields(history)})


def print_losses(seed: int, epoch: int, train_loss: float, validation_loss: float) -> None:
    """Print a seed, an epoch, its `train_loss` and `validation_loss`, with the digits that all machines agree in."""
    losses = [f"{float(f'{loss:.3g}'):g}" for loss in (train_loss, validation_loss)]
    print(f"seed {seed}, epoch {epoch:2}: training loss {losses[0]:5}  validation loss {losses[1]}")
