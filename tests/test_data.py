from itertools import islice

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from toy_transformer.data import FixedLengthStrings, VariableLengthStrings, concatenate
from toy_transformer.experiments import FIXED_LENGTH_TRAINING_DATA, TEST_DATA, TRAINING_DATA, VALIDATION_DATA
from toy_transformer.task import Task


def _written_out(batch, letters="abc"):
    strings = ["".join(x * n for x, n in zip(letters, row, strict=True)) for row in batch.counts.tolist()]
    return [list(pair) for pair in zip(strings, batch.labels.tolist(), strict=True)]


def test_published_variable_length_strings(published):
    example = published["variable_length_example"]
    arguments = dict(example["arguments"])
    arguments["epoch_size"] = arguments.pop("batches_per_epoch") * arguments["batch_size"]
    data = VariableLengthStrings(**arguments)
    batches = [batch for epoch in islice(data.epochs(), 2) for batch in epoch]
    assert [_written_out(batch) for batch in batches] == example["batches"]


def test_published_fixed_length_strings(published):
    example = published["fixed_length_example"]
    data = FixedLengthStrings(length=example["length"])
    everything = data.all()
    assert everything.labels.bincount().tolist() == list(example["label_counts"].values())
    assert len(everything.counts) == example["size"]
    # The published strings keep the order of their letters; counts forget it.
    expected = [["".join(sorted(string)), label] for string, label in example["first_ten"]]
    assert _written_out(everything)[:10] == expected


@pytest.mark.parametrize(
    "data",
    [
        VariableLengthStrings(max_length=10, alpha=0.3, seed=7),
        VariableLengthStrings(Task("abcd", "abd"), max_length=12, alpha=2.0, batch_size=100, epoch_size=1000),
        VariableLengthStrings(Task("ab", "a"), max_length=1, batch_size=4, epoch_size=400),
    ],
)
def test_strings_have_the_lengths_labels_and_shares_they_should(data):
    letters, required = data.task.letters, data.task.required
    for batch in next(data.epochs()):
        lengths = batch.counts.sum(dim=1)
        assert batch.counts.min() >= 0 and lengths.min() >= 1 and lengths.max() <= data.max_length
        present = torch.stack([batch.counts[:, letters.index(letter)] > 0 for letter in required])
        assert torch.equal(batch.labels.bool(), present.all(dim=0))
        combinations = (present.int() * torch.tensor([[2**j] for j in range(len(required))])).sum(dim=0)
        shares = combinations.bincount(minlength=2 ** len(required))
        assert shares.sum() == data.batch_size
        assert shares[:-1].max() - shares[:-1].min() <= 1
        assert shares[-1] >= shares[:-1].max()


def test_batches_of_64_have_28_negatives():
    assert {int((batch.labels == 0).sum()) for batch in next(TRAINING_DATA.epochs())} == {28}


def test_epochs_go_on_and_begin_again_from_the_seed():
    first, second = islice(TRAINING_DATA.epochs(), 2)
    again, _ = islice(TRAINING_DATA.epochs(), 2)
    assert torch.equal(first[0].counts, again[0].counts)
    assert not torch.equal(first[0].counts, second[0].counts)


@pytest.mark.parametrize(("data", "strings"), [(TRAINING_DATA, 9984), (VALIDATION_DATA, 960), (TEST_DATA, 9984)])
def test_sizes(data, strings):
    assert data.num_strings == sum(len(batch.labels) for batch in next(data.epochs())) == strings


@pytest.mark.parametrize(
    "arguments",
    [
        dict(batch_size=3),
        dict(epoch_size=63),
        dict(max_length=1),
        dict(alpha=0.0),
        dict(task=Task("ab", "ab")),
    ],
)
def test_data_that_cannot_be(arguments):
    with pytest.raises(ValueError, match="expected"):
        VariableLengthStrings(**arguments)


def test_fixed_length_strings_are_shuffled_as_by_a_plain_data_loader():
    data = FixedLengthStrings(length=5, batch_size=64, seed=3)
    counts, labels = data.all()
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(counts, labels), batch_size=64, shuffle=True, generator=generator)
    orders = []
    for batches in islice(data.epochs(), 3):
        expected = list(loader)
        assert [len(batch.labels) for batch in batches] == [64, 64, 64, 51]
        for batch, (some_counts, some_labels) in zip(batches, expected, strict=True):
            assert torch.equal(batch.counts, some_counts) and torch.equal(batch.labels, some_labels)
        epoch = concatenate(batches)
        assert sorted(epoch.counts.tolist()) == sorted(counts.tolist())
        orders.append(epoch.counts.tolist())
    assert orders[0] != orders[1] != orders[2]


def test_the_training_strings_of_fixed_length_are_308_batches():
    assert len(next(FIXED_LENGTH_TRAINING_DATA.epochs())) == 308


def test_several_letters_that_are_not_required():
    """They share the places that are left over evenly; 0.01 is three standard deviations of some 24,000 draws."""
    batches = next(VariableLengthStrings(Task("abcde", "b"), max_length=12, epoch_size=6400).epochs())
    counts = torch.cat([batch.counts for batch in batches])
    assert counts.sum(dim=1).min() == 1 and counts.sum(dim=1).max() == 12
    others = counts[:, [0, 2, 3, 4]].double().sum(dim=0)
    torch.testing.assert_close(others / others.sum(), torch.full((4,), 0.25).double(), rtol=0, atol=0.01)


def test_the_defaults_of_strings_are_those_of_the_experiments():
    assert VariableLengthStrings() == TRAINING_DATA
    assert FixedLengthStrings() == FIXED_LENGTH_TRAINING_DATA
