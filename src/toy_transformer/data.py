"""The two datasets, as letter counts: the order of the letters does not matter to the model.

Their strings have their letters in alphabetical order, so counts say everything: "aabccc" is (2, 1, 3).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from toy_transformer.task import Task, contains_all


class Batch(NamedTuple):
    """Some strings, as counts of each letter, and the right answer for each: 1 or 0."""

    counts: Int[Tensor, "batch letter"]
    labels: Int[Tensor, "batch"]


@dataclass(frozen=True)
class VariableLengthStrings:
    """Random strings of up to `max_length` letters, in batches, the same for the same seed.

    Every combination of required letters that occur or do not gets its share of a batch; the one in
    which all of them occur gets the largest. A smaller `alpha` makes the numbers of the
    required letters more unequal: they are drawn from a Dirichlet distribution with that total.

    Raises `ValueError` where a batch is too small to hold every combination.
    """

    task: Task = Task()
    max_length: int = 10
    alpha: float = 1.0
    epoch_size: int = 10_000
    batch_size: int = 64
    seed: int = 0

    def __post_init__(self):
        combinations, num_required = 2 ** len(self.task.required), len(self.task.required)
        if self.task.letters == self.task.required:
            raise ValueError(f"all of {self.task.letters!r} are required: expected a letter that is not")
        if self.batch_size < combinations:
            raise ValueError(
                f"batch_size={self.batch_size}: expected at least {combinations}, one string for each "
                f"combination of the required letters {self.task.required!r} that occur or do not"
            )
        if self.epoch_size < self.batch_size:
            raise ValueError(f"epoch_size={self.epoch_size}: expected at least batch_size={self.batch_size}")
        if self.max_length < num_required:
            raise ValueError(f"max_length={self.max_length}: expected room for {self.task.required!r}")
        if not self.alpha > 0:
            raise ValueError(f"alpha={self.alpha}: expected a positive number")

    @property
    def num_strings(self) -> int:
        """How many strings an epoch has: those of its whole batches."""
        return self.epoch_size // self.batch_size * self.batch_size

    def epochs(self) -> Iterator[tuple[Batch, ...]]:
        """Give the batches of one epoch after another, without end."""
        seed = self.seed
        while True:
            batches, seed = _draw_epoch(self, seed)
            yield batches

    def _draw_batch(self, generator: np.random.RandomState) -> Batch:
        budgets = self._budgets()
        rows = []
        for _ in range(self.batch_size):
            available = [i for i, budget in enumerate(budgets) if budget]
            combination = available[generator.randint(len(available))]
            budgets[combination] -= 1
            rows.append(self._draw_counts(generator, combination))
        return _batch(rows, self.task)

    def _budgets(self) -> list[int]:
        """Say how many strings of a batch are drawn for each combination of required letters.

        Bit j of a combination's index says whether required letter j occurs.
        """
        num_required = len(self.task.required)
        num_shares = 2**num_required + num_required + 1
        share, rest = divmod(self.batch_size, num_shares)
        shares = [share + (i < rest) for i in range(num_shares)]
        last = 2**num_required - 1
        return shares[:last] + [sum(shares[last:])]

    def _draw_counts(self, generator: np.random.RandomState, combination: int) -> list[int]:
        """Draw one string. The order of the random draws is part of the published data."""
        letters, required = self.task.letters, self.task.required
        present = [letter for j, letter in enumerate(required) if combination >> j & 1]
        others = [letter for letter in letters if letter not in required]
        counts = dict.fromkeys(letters, 0)
        length = generator.randint(max(len(present), 1), self.max_length + 1)
        places = length
        if present:
            taken = generator.randint(len(present), length + 1)
            proportions = generator.dirichlet([self.alpha / len(present)] * len(present))
            extra = generator.multinomial(taken - len(present), proportions)
            counts.update({letter: 1 + int(n) for letter, n in zip(present, extra, strict=True)})
            places = length - taken
        if places:
            drawn = Counter(generator.randint(len(others), size=places).tolist())
            counts.update({others[i]: n for i, n in drawn.items()})
        return list(counts.values())


@lru_cache(maxsize=64)
def _draw_epoch(data: VariableLengthStrings, seed: int) -> tuple[tuple[Batch, ...], int]:
    """Draw the batches of one epoch and the seed of the next; several trainings share what is drawn."""
    batches = []
    for _ in range(data.epoch_size // data.batch_size):
        generator = np.random.RandomState(seed)
        batches.append(data._draw_batch(generator))
        seed = int(generator.randint(2**32, dtype=np.int64))
    return tuple(batches), seed


@dataclass(frozen=True)
class FixedLengthStrings:
    """All strings of `length` letters, in lexicographic order."""

    task: Task = Task()
    length: int = 9

    def all(self) -> Batch:
        """Give them as one batch of len(letters) ** length strings."""
        letters = self.task.letters
        rows = [[string.count(letter) for letter in letters] for string in product(letters, repeat=self.length)]
        return _batch(rows, self.task)


def _batch(rows: list[list[int]], task: Task) -> Batch:
    def label(row: list[int]) -> int:
        present = [letter for letter, count in zip(task.letters, row, strict=True) if count]
        return int(contains_all(present, task.required))

    return Batch(torch.tensor(rows), torch.tensor([label(row) for row in rows]))
