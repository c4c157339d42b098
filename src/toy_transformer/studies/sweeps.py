"""Many models: all experiments, or hundreds of seeds of any configuration, in one process or in several."""

import math
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from tqdm.auto import tqdm

from toy_transformer import experiments
from toy_transformer.experiments import Data, Experiment, Initialization, Run, train_and_test
from toy_transformer.model import ModelConfig
from toy_transformer.proofs.horizon import known_horizon
from toy_transformer.studies.leads import looks_for
from toy_transformer.studies.parallel import completed
from toy_transformer.training import TrainingConfig, one_thread


class SweepRow(NamedTuple):
    """What a sweep tells about one seed.

    `validation_loss` is the sum over the validation strings; `heads` is what `leads.looks_for` gives.
    `horizon` is the length, of up to a million letters, up to which the model is right about every string. It
    is None where it was not asked for, for a model with norm, and where a logit is too near 0.
    """

    seed: int
    false_positives: int
    false_negatives: int
    best_epoch: int
    epochs: int
    validation_loss: float
    heads: Sequence[tuple[str, float]]
    horizon: int | None

    @property
    def errors(self) -> int:
        return self.false_positives + self.false_negatives

    @property
    def letters(self) -> str:
        """Those that the heads look for, each once."""
        return "".join(sorted({letter for letter, _ in self.heads}))


@dataclass(frozen=True, repr=False)
class Share:
    """A count out of a total, and the ends of the interval in which the share of all such cases lies."""

    count: int
    total: int
    low: float
    high: float

    def __repr__(self) -> str:
        return f"{self.count} of {self.total} ({self.low:.0%} to {self.high:.0%})"


def run_all(executor: Executor | None = None) -> dict[str, list[Run]]:
    """Run all experiments, as `run` does each; an executor is used as by `sweep`.

    Models of one architecture that learn from the same strings are trained side by side, whatever their
    experiments; one that belongs to several experiments is trained once.
    """
    groups: dict[tuple, dict[Initialization, None]] = {}
    for experiment in experiments.EXPERIMENTS.values():
        group = groups.setdefault((experiment.data, experiment.model.architecture), {})
        group.update(dict.fromkeys((experiment.model, seed) for seed in experiment.seeds))
    tasks = {
        f"training of {architecture} on {data}": (data, list(group)) for (data, architecture), group in groups.items()
    }
    found = {}
    with tqdm(total=sum(len(group) for group in groups.values()), unit="model") as progress:
        for label, runs in completed(_pickled_runs, tasks, executor):
            data, initializations = tasks[label]
            found |= {(data, *which): run for which, run in zip(initializations, pickle.loads(runs), strict=True)}
            progress.update(len(initializations))
    return {
        name: [found[experiment.data, experiment.model, seed] for seed in experiment.seeds]
        for name, experiment in experiments.EXPERIMENTS.items()
    }


SEEDS_TOGETHER = 96
"""How many seeds of a sweep are trained side by side, at most: more would need more memory and save no time."""


def sweep(
    config: ModelConfig,
    seeds: Sequence[int],
    executor: Executor | None = None,
    data: Data = Data(),
    training_config: TrainingConfig = TrainingConfig(),
    horizons: bool = True,
) -> list[SweepRow]:
    """Train and test one model for each of many `seeds`, on strings such as `data`; give one row for each, in order.

    The work is done in this process, or by an executor, as `parallel.completed` says. Without `horizons`, which take
    a tenth to a sixth of the time, that column is None. Raises `ValueError` for no seeds or a seed twice, and
    `RuntimeError`, which names the seeds, where their training fails.
    """
    experiment = Experiment(model=config, data=data, training=training_config)
    return sweep_each({"models": experiment}, seeds, executor, horizons)["models"]


def sweep_each(
    by_name: Mapping[str, Experiment],
    seeds: Sequence[int],
    executor: Executor | None = None,
    horizons: bool = True,
) -> dict[str, list[SweepRow]]:
    """Sweep several experiments `by_name`, as `sweep` does one, each with these `seeds` in place of its own.

    An executor and `horizons` are as for `sweep`.

    Models of one architecture that learn the same in the same way are trained side by side.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds={seeds!r}: expected at least one, and none twice")
    groups: dict[tuple, list[tuple[str, int]]] = {}
    for name, experiment in by_name.items():
        together = experiment.data, experiment.training, experiment.model.architecture
        groups.setdefault(together, []).extend((name, seed) for seed in seeds)
    chunks = {_describe(chunk): chunk for group in groups.values() for chunk in _chunks(group)}
    tasks = {}
    for label, chunk in chunks.items():
        first = by_name[chunk[0][0]]
        initializations = [(by_name[name].model, seed) for name, seed in chunk]
        tasks[label] = first.data, initializations, first.training, horizons
    rows = {name: {} for name in by_name}
    with tqdm(total=len(seeds) * len(by_name), unit="seed") as progress:
        for label, done in completed(_sweep_rows, tasks, executor):
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
    return "training of " + " and ".join(f"{name}, seeds {numbers}" for name, numbers in seeds.items())


def outcomes(rows: Sequence[SweepRow]) -> dict[str, Share]:
    """Give the shares of the seeds of a sweep by what became of them.

    A horizon of 0 means that a model is wrong already about a string of one letter: it looks for one letter only.
    """
    clean = sum(row.errors == 0 for row in rows)
    at_0 = sum(row.errors > 0 and row.horizon == 0 for row in rows)
    counts = {"clean": clean, "at 0": at_0, "other errors": len(rows) - clean - at_0}
    return {outcome: share(count, len(rows)) for outcome, count in counts.items()}


def median_lead(rows: Sequence[SweepRow]) -> float:
    """Give the median of the leads of all heads of all seeds."""
    return median(lead for row in rows for _, lead in row.heads)


def share(count: int, total: int) -> Share:
    """Say how large a share may be of which a sample of `total` has `count`, at 95 % confidence (Wilson 1927)."""
    from scipy.stats import binomtest  # loads for a quarter of a second, and sweeps are imported everywhere

    return Share(count, total, *binomtest(count, total).proportion_ci(method="wilson"))


def _pickled_runs(data: Data, initializations: Sequence[Initialization]) -> bytes:
    """Bytes, for torch would open a file for each of thousands of tensors on their way from process to process."""
    return pickle.dumps(train_and_test(data, initializations))


@one_thread()
def _sweep_rows(
    data: Data,
    initializations: Sequence[Initialization],
    training_config: TrainingConfig,
    horizons: bool,
) -> list[SweepRow]:
    rows = []
    for run in train_and_test(data, initializations, training_config=training_config):
        epochs, least_loss = len(run.validation_losses), min(run.validation_losses)
        errors = run.false_positives, run.false_negatives
        length = known_horizon(run.model) if horizons else None
        rows.append(SweepRow(run.seed, *errors, run.best_epoch, epochs, least_loss, looks_for(run.model), length))
    return rows
