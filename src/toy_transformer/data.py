"""Strings as letter counts, for their order does not matter to the model: the two datasets, and a model's input.

Their strings have their letters in alphabetical order, so counts say everything: "aabccc" is (2, 1, 3).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Num
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import DataLoader

from toy_transformer.task import CLS, FIRST_LETTER, Task, contains_all


class Batch(NamedTuple):
    """Some strings, as counts of each letter, and the right answer for each: 1 or 0."""

    counts: Int[Tensor, "batch letter"]
    labels: Int[Tensor, "batch"]


@dataclass(frozen=True)
class VariableLengthStrings:
    """Random strings of up to `max_length` letters, in batches, the same for the same seed.

    Every combination of required letters that occur or do not gets its share of a batch; the one in
    which all of them occur gets the largest. A smaller `alpha` makes the numbers of the
    required letters more unequal: they are drawn from a Dirichlet distribution with that total. An epoch has
    `epoch_size` strings, cut down to whole batches of `batch_size`.

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

    def _draw_batch(self, generator: "_Generator") -> Batch:
        required = [self.task.letters.index(letter) for letter in self.task.required]
        others = [letter for letter in range(len(self.task.letters)) if letter not in required]
        budgets, counts, labels = self._budgets(), [], []
        for _ in range(self.batch_size):
            available = [i for i, budget in enumerate(budgets) if budget]
            combination = available[generator.below(len(available))]
            budgets[combination] -= 1
            present = [letter for j, letter in enumerate(required) if combination >> j & 1]
            counts.append(self._draw_counts(generator, present, others))
            labels.append(int(len(present) == len(required)))
        return Batch(torch.tensor(counts), torch.tensor(labels))

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

    def _draw_counts(self, generator: "_Generator", present: list[int], others: list[int]) -> list[int]:
        """Draw one string that has the required letters `present`, and any of the `others`.

        Letters are given by their places in the alphabet. The order of the draws is part of the published data.
        """
        counts = [0] * (len(self.task.required) + len(others))
        least = max(len(present), 1)
        length = least + generator.below(self.max_length + 1 - least)
        places = length
        if present:
            taken = len(present) + generator.below(length + 1 - len(present))
            places = length - taken
            # Gammas over their sum are a Dirichlet draw; numpy's own gives the same, in five times the time.
            gammas = generator.standard_gamma(self.alpha / len(present), len(present)).tolist()
            proportions = [gamma * (1 / sum(gammas)) for gamma in gammas]
            extras = generator.multinomial(taken - len(present), proportions).tolist()
            for letter, extra in zip(present, extras, strict=True):
                counts[letter] = 1 + extra
        if len(others) == 1:
            counts[others[0]] = places
        else:
            for other in generator.randint(len(others), size=places).tolist():
                counts[others[other]] += 1
        return counts


class _Generator(np.random.RandomState):
    """NumPy's generator of the published data, with a faster way to draw one whole number."""

    def __init__(self):
        bits = np.random.MT19937()
        super().__init__(bits)
        self._word = bits.random_raw

    def below(self, end: int) -> int:
        """Draw what `randint(end)` draws, in a quarter of the time: 32 bits, cut short, until they are small enough."""
        if end == 1:
            return 0
        mask = (1 << (end - 1).bit_length()) - 1
        while (number := self._word() & mask) >= end:
            pass
        return number


@lru_cache(maxsize=64)
def _draw_epoch(data: VariableLengthStrings, seed: int) -> tuple[tuple[Batch, ...], int]:
    """Draw the batches of one epoch and the seed of the next; several trainings share what is drawn."""
    batches, generator = [], _Generator()
    for _ in range(data.epoch_size // data.batch_size):
        generator.seed(seed)
        batches.append(data._draw_batch(generator))
        seed = generator.below(2**32)
    return tuple(batches), seed


@dataclass(frozen=True)
class FixedLengthStrings:
    """All strings of `length` letters, in batches of `batch_size`, shuffled anew for each epoch; `seed` says how."""

    task: Task = Task()
    length: int = 9
    batch_size: int = 64
    seed: int = 0

    def all(self) -> Batch:
        """Give them as one batch of len(letters) ** length strings, in lexicographic order."""
        strings = list(product(self.task.letters, repeat=self.length))
        counts = [[string.count(letter) for letter in self.task.letters] for string in strings]
        labels = [int(contains_all(string, self.task.required)) for string in strings]
        return Batch(torch.tensor(counts), torch.tensor(labels))

    def epochs(self) -> Iterator[tuple[Batch, ...]]:
        """Give the batches of one epoch after another, without end; the last of an epoch may be smaller."""
        counts, labels = self.all()
        generator = torch.Generator().manual_seed(self.seed)
        places = DataLoader(range(len(labels)), self.batch_size, shuffle=True, generator=generator)
        while True:
            yield tuple(Batch(counts[indices], labels[indices]) for indices in places)


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Make one batch of several."""
    counts, labels = zip(*batches, strict=True)
    return Batch(torch.cat(counts), torch.cat(labels))


def from_counts(
    counts: Num[Tensor, "batch letter"], dtype: torch.dtype = torch.float32
) -> tuple[Int[Tensor, "1 token"], Float[Tensor, "batch token"]]:
    """Turns letter counts, or shares, into what a model takes: CLS and each letter once, with multiplicities."""
    num_letters = counts.shape[1]
    token_ids = torch.tensor([[CLS, *range(FIRST_LETTER, FIRST_LETTER + num_letters)]])
    return token_ids, pad(counts.to(dtype), (1, 0), value=1.0)
