"""The named experiments: which models are trained on which data, and what they get wrong.

A further experiment is one entry in `EXPERIMENTS`; `sweep` asks hundreds of seeds of any configuration.
"""

import copy
import math
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from tqdm.auto import tqdm

from toy_transformer.data import Batch, FixedLengthStrings, VariableLengthStrings, concatenate
from toy_transformer.horizon import Undecidable, horizon
from toy_transformer.model import ModelConfig, Transformer, from_counts
from toy_transformer.parallel import each
from toy_transformer.task import contains_all
from toy_transformer.training import OnEpoch, TrainedModel, TrainingConfig, one_thread, train

TRAINING_DATA = VariableLengthStrings(max_length=10, alpha=1.0, epoch_size=10_000, batch_size=64, seed=0)
FIXED_LENGTH_TRAINING_DATA = FixedLengthStrings(length=9, batch_size=64, seed=0)
VALIDATION_DATA = VariableLengthStrings(max_length=50, alpha=0.5, epoch_size=1_000, batch_size=64, seed=0)
TEST_DATA = VariableLengthStrings(max_length=200, alpha=0.1, epoch_size=10_000, batch_size=256, seed=2)

TrainingData = VariableLengthStrings | FixedLengthStrings


@dataclass(frozen=True)
class Experiment:
    """Models of one configuration that differ in the seed of their initialization."""

    seeds: Sequence[int] = range(8)
    model: ModelConfig = ModelConfig()
    training_data: TrainingData = TRAINING_DATA


_SMALL_OUTPUTS = dict(attention_output_init="output_fan_out", feed_forward_output_init="output_fan_out")

EXPERIMENTS = {
    "walkthrough": Experiment(seeds=[5]),
    "generalization_errors": Experiment(seeds=[2]),
    "attend_cls": Experiment(seeds=[8], model=ModelConfig(attend_cls=True)),
    "all_fixed_length_sequences": Experiment(seeds=[0, 1], training_data=FIXED_LENGTH_TRAINING_DATA),
    "all_initializations": Experiment(),
    "increased_dimensionality": Experiment(model=ModelConfig(hidden_size=16)),
    "lower_magnitude_initializations": Experiment(
        model=ModelConfig(hidden_size=16, embedding_init="linear_like", **_SMALL_OUTPUTS)
    ),
    "default_embeddings_initialization": Experiment(model=ModelConfig(hidden_size=16, **_SMALL_OUTPUTS)),
    "increased_num_attention_heads": Experiment(
        model=ModelConfig(hidden_size=16, num_attention_heads=16, embedding_init="linear_like", **_SMALL_OUTPUTS)
    ),
}


@dataclass(frozen=True)
class Run(TrainedModel):
    """A trained model and what it got wrong on the test strings.

    `confusion_matrix` is [[true negatives, false positives], [false negatives, true positives]];
    `wrong_strings` are the wrongly classified strings in short form, sorted.
    """

    confusion_matrix: list[list[int]]
    wrong_strings: list[str]

    @property
    def false_positives(self) -> int:
        return self.confusion_matrix[0][1]

    @property
    def false_negatives(self) -> int:
        return self.confusion_matrix[1][0]


class SweepRow(NamedTuple):
    """What a sweep tells about one seed. `validation_loss` is the sum over the validation strings.

    `horizon` is the length, of up to a million letters, up to which the model is right about every string. It
    is None where it was not asked for, for another number of letters than three, and where a logit is too near 0.
    """

    seed: int
    false_positives: int
    false_negatives: int
    best_epoch: int
    epochs: int
    validation_loss: float
    horizon: int | None

    @property
    def errors(self) -> int:
        return self.false_positives + self.false_negatives


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
    return _train_and_test(experiment.training_data, initializations, on_epoch, training_config)


def run_all(executor: Executor | None = None) -> dict[str, list[Run]]:
    """Run all experiments, as `run` does each; an executor is used as by `sweep`.

    Models of one architecture that learn from the same strings are trained side by side, whatever their
    experiments; one that belongs to several experiments is trained once.
    """
    groups = {}
    for experiment in EXPERIMENTS.values():
        group = groups.setdefault((experiment.training_data, experiment.model.architecture), {})
        group.update(dict.fromkeys((experiment.model, seed) for seed in experiment.seeds))
    tasks = {
        f"training of {architecture} on {data}": (data, list(group)) for (data, architecture), group in groups.items()
    }
    found = {}
    with tqdm(total=sum(map(len, groups.values())), unit="model") as progress:
        for label, runs in each(_pickled_runs, tasks, executor):
            data, initializations = tasks[label]
            found |= {(data, *which): run for which, run in zip(initializations, pickle.loads(runs), strict=True)}
            progress.update(len(initializations))
    return {
        name: [found[experiment.training_data, experiment.model, seed] for seed in experiment.seeds]
        for name, experiment in EXPERIMENTS.items()
    }


SEEDS_TOGETHER = 64
"""How many seeds of a sweep are trained side by side, at most: more would need more memory and save no time."""


def sweep(
    config: ModelConfig,
    seeds: Sequence[int],
    executor: Executor | None = None,
    training_data: TrainingData = TRAINING_DATA,
    training_config: TrainingConfig = TrainingConfig(),
    horizons: bool = True,
) -> list[SweepRow]:
    """Train and test one model for each of many seeds; give one row for each, in their order.

    The work is done in this process, or by an executor, as `parallel.each` says. Without `horizons`, which take
    a tenth to a sixth of the time, that column is None. Raises `ValueError` for no seeds or a seed twice, and
    `RuntimeError`, which names the seeds, where their training fails.
    """
    return sweep_each({"models": config}, seeds, executor, training_data, training_config, horizons)["models"]


def sweep_each(
    configs: Mapping[str, ModelConfig],
    seeds: Sequence[int],
    executor: Executor | None = None,
    training_data: TrainingData = TRAINING_DATA,
    training_config: TrainingConfig = TrainingConfig(),
    horizons: bool = True,
) -> dict[str, list[SweepRow]]:
    """Sweep several configurations, as `sweep` does each; models of one architecture are trained side by side."""
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds={seeds!r}: expected at least one, and none twice")
    groups = {}
    for name, config in configs.items():
        groups.setdefault(config.architecture, []).extend((name, seed) for seed in seeds)
    chunks = {_describe(chunk): chunk for group in groups.values() for chunk in _chunks(group)}
    tasks = {
        label: (training_data, [(configs[name], seed) for name, seed in chunk], training_config, horizons)
        for label, chunk in chunks.items()
    }
    rows = {name: {} for name in configs}
    with tqdm(total=len(seeds) * len(configs), unit="seed") as progress:
        for label, done in each(_sweep_rows, tasks, executor):
            for (name, seed), row in zip(chunks[label], done, strict=True):
                rows[name][seed] = row
            progress.update(len(done))
    return {name: [found[seed] for seed in seeds] for name, found in rows.items()}


def _chunks(models: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Divide into as few chunks of `SEEDS_TOGETHER` at most as can be, of nearly the same size."""
    size = math.ceil(len(models) / math.ceil(len(models) / SEEDS_TOGETHER))
    return [models[i : i + size] for i in range(0, len(models), size)]


def _describe(chunk: list[tuple[str, int]]) -> str:
    seeds = {}
    for name, seed in chunk:
        seeds.setdefault(name, []).append(seed)
    return "training of " + " and ".join(f"{name}, seeds {some}" for name, some in seeds.items())


def outcomes(rows: Sequence[SweepRow]) -> dict[str, int]:
    """Count the seeds of a sweep by what became of them.

    With 1,000 false positives or more, a seed is counted as one that looks for one letter only: it says yes to most
    of the 1,443 test strings that have just one certain letter of the two that are required.
    """
    no_errors = sum(row.errors == 0 for row in rows)
    one_letter_only = sum(row.false_positives >= 1000 for row in rows)
    return {
        "no errors": no_errors,
        "one letter only": one_letter_only,
        "other errors": len(rows) - no_errors - one_letter_only,
    }


def retrain(models: Sequence[Transformer], training_config: TrainingConfig) -> list[TrainedModel]:
    """Train models of one architecture on strings of their task, side by side, from where they are; they stay."""
    copies = [copy.deepcopy(model).float().requires_grad_() for model in models]
    training, validation = (replace(data, task=models[0].config.task) for data in (TRAINING_DATA, VALIDATION_DATA))
    return train(copies, training.epochs(), concatenate(next(validation.epochs())), training_config)


def _train_and_test(
    training_data: TrainingData,
    initializations: Sequence[Initialization],
    on_epoch: OnEpoch | None = None,
    training_config: TrainingConfig = TrainingConfig(),
) -> list[Run]:
    models = [Transformer(config, seed) for config, seed in initializations]
    datasets = (training_data, VALIDATION_DATA, TEST_DATA)
    training, validation, test = (replace(data, task=models[0].config.task).epochs() for data in datasets)
    histories = train(models, training, concatenate(next(validation)), training_config, on_epoch)
    test_strings = concatenate(next(test))
    return [Run(**vars(history), **evaluate(history.model, test_strings)) for history in histories]


def _pickled_runs(training_data: TrainingData, initializations: Sequence[Initialization]) -> bytes:
    """Bytes, for torch would open a file for each of thousands of tensors on their way from process to process."""
    return pickle.dumps(_train_and_test(training_data, initializations))


def _sweep_rows(
    training_data: TrainingData,
    initializations: Sequence[Initialization],
    training_config: TrainingConfig,
    horizons: bool,
) -> list[SweepRow]:
    rows = []
    for run in _train_and_test(training_data, initializations, training_config=training_config):
        epochs, least_loss = len(run.validation_losses), min(run.validation_losses)
        errors = run.false_positives, run.false_negatives
        length = known_horizon(run.model) if horizons else None
        rows.append(SweepRow(run.seed, *errors, run.best_epoch, epochs, least_loss, length))
    return rows


def known_horizon(model: Transformer) -> int | None:
    """The horizon; None for another number of letters than three, and where a logit is too near 0 to have a sign."""
    if len(model.tokenizer.letters) != 3:
        return None
    try:
        return horizon(model)
    except Undecidable:
        return None


def print_losses(seed: int, epoch: int, train_loss: float, validation_loss: float) -> None:
    """Print one line for an epoch, with the digits that are the same on every machine."""
    losses = [f"{float(f'{loss:.3g}'):g}" for loss in (train_loss, validation_loss)]
    print(f"seed {seed}, epoch {epoch:2}: training loss {losses[0]:5}  validation loss {losses[1]}")


def classify(model: Transformer, counts: Int[Tensor, "batch letter"]) -> Bool[Tensor, "batch"]:
    """Say for each string, given as letter counts, whether the model's logit is positive."""
    with torch.no_grad(), one_thread():
        return model(*from_counts(counts, model.embedding.weight.dtype), num_queries=1).output_logits > 0


def is_right(model: Transformer, string: str) -> bool:
    """Say whether the model answers one string rightly."""
    logit = model.trace([string]).output_logits.item()
    return (logit > 0) == contains_all(string, model.config.task.required)


def evaluate(model: Transformer, strings: Batch) -> dict:
    """Compare a model's answers with the right ones: the last two fields of a `Run`."""
    predictions = classify(model, strings.counts)
    confusion_matrix = torch.bincount(2 * strings.labels + predictions, minlength=4).reshape(2, 2).tolist()
    wrong = strings.counts[predictions != strings.labels.bool()].tolist()
    return dict(
        confusion_matrix=confusion_matrix,
        wrong_strings=sorted(model.tokenizer.short_form(row) for row in wrong),
    )
