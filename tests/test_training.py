import dataclasses

import pytest
import torch

from toy_transformer import experiments
from toy_transformer.data import VariableLengthStrings
from toy_transformer.model import ModelConfig, Transformer, from_counts
from toy_transformer.task import Task, contains_all
from toy_transformer.training import TrainedModel, TrainingConfig, one_thread, train

SMALL = VariableLengthStrings(epoch_size=640, seed=1)
VALIDATION = next(VariableLengthStrings(max_length=20, epoch_size=128).epochs())


def _train(config, seeds, max_epochs=6, **kwargs):
    rule = TrainingConfig(max_epochs=max_epochs)
    return train(config, seeds, SMALL.epochs(), VALIDATION, rule, **kwargs)


@pytest.mark.parametrize("config", [ModelConfig(), ModelConfig(hidden_size=4, norm="rms", attend_cls=True)])
def test_side_by_side_is_the_same_as_alone(config):
    together = _train(config, [0, 1, 2])
    for trained in together:
        (alone,) = _train(config, [trained.seed])
        torch.testing.assert_close(trained.train_losses, alone.train_losses, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(trained.validation_losses, alone.validation_losses, rtol=1e-4, atol=1e-4)


def test_training_is_that_of_a_plain_loop():
    """One model, torch's AdamW and LinearLR, tokens written out and padded: what a textbook would do."""
    (trained,) = _train(ModelConfig(), [3], max_epochs=3)
    model = Transformer(seed=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, total_iters=3)
    epochs = SMALL.epochs()
    for epoch in range(3):
        total = 0.0
        for batch in next(epochs):
            strings = [model.tokenizer.short_form(row) for row in batch.counts.tolist()]
            token_ids = torch.tensor(model.tokenizer.encode_batch(strings))
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                model(token_ids).output_logits, batch.labels.float()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(strings)
        scheduler.step()
        assert trained.train_losses[epoch] == pytest.approx(total, rel=1e-4)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(trained.weights[3][name], weight.detach(), rtol=1e-3, atol=1e-4)


def _history(*losses):
    losses = [float(loss) for loss in losses]
    return TrainedModel(ModelConfig(), 0, losses, losses, [])


@pytest.mark.parametrize(
    ("losses", "finished"),
    [
        ((0.01, 0.01, 0.01, 0.01), False),  # the rule begins with epoch 5
        ((9, 9, 9, 9, 0.04), True),
        ((9, 9, 9, 9, 0.05), False),  # not below
        ((1, 1, 1, 1, 5, 6, 6), False),  # two epochs without a new least since epoch 5
        ((1, 1, 1, 1, 5, 6, 6, 6), True),  # three
        ((1, 1, 1, 1, 5, 5, 5, 5), True),  # as little as the least is not less
        ((1, 1, 1, 1, 5, 6, 6, 4, 6, 6), False),  # the patience is refilled
        ((1, 1, 1, 1, 5, 6, 6, 4, 6, 6, 6), True),
        (tuple(range(40, 10, -1)), True),  # 30 epochs at most
        (tuple(range(40, 11, -1)), False),
    ],
)
def test_when_training_stops(losses, finished):
    assert _history(*losses).has_finished(TrainingConfig()) == finished


def test_the_best_epoch_is_the_earliest_with_the_least_loss():
    assert _history(3, 1, 2, 1, 5).best_epoch == 2
    assert _history(0.01, 4, 4, 4, 5).best_epoch == 1


def test_each_model_stops_by_its_own_rule_and_keeps_its_history():
    epochs_seen = []
    trained = _train(
        ModelConfig(hidden_size=16), range(4), 9, on_epoch=lambda seed, epoch, *_: epochs_seen.append((seed, epoch))
    )
    lengths = {model.seed: len(model.train_losses) for model in trained}
    assert len(set(lengths.values())) > 1, "choose data for which the models stop at different epochs"
    assert sorted(epochs_seen) == [(seed, epoch) for seed in lengths for epoch in range(1, lengths[seed] + 1)]
    for model in trained:
        assert len(model.weights) == lengths[model.seed] + 1
        untrained = Transformer(model.config, model.seed)
        assert all(torch.equal(model.weights[0][name], w) for name, w in untrained.named_parameters())
        best = model.model
        losses = [
            torch.nn.functional.binary_cross_entropy_with_logits(
                best(*from_counts(batch.counts)).output_logits, batch.labels.float(), reduction="sum"
            )
            for batch in VALIDATION
        ]
        assert sum(losses).item() == pytest.approx(min(model.validation_losses), rel=1e-4, abs=1e-4)


def test_dropout_is_off_in_validation():
    (trained,) = _train(ModelConfig(dropout=0.3), [0], max_epochs=1)
    model = trained.model
    logits = [model(*from_counts(batch.counts)).output_logits for batch in VALIDATION]
    losses = [
        torch.nn.functional.binary_cross_entropy_with_logits(x, batch.labels.float(), reduction="sum").item()
        for x, batch in zip(logits, VALIDATION, strict=True)
    ]
    assert trained.validation_losses == [pytest.approx(sum(losses), rel=1e-4)]


def test_dropout_is_the_same_each_time():
    first, second = (_train(ModelConfig(dropout=0.2), [1, 2], max_epochs=2) for _ in range(2))
    assert [h.train_losses for h in first] == [h.train_losses for h in second]


def test_no_seeds():
    with pytest.raises(ValueError, match="no seeds"):
        _train(ModelConfig(), [])


def test_training_leaves_the_threads_and_the_random_state_alone():
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    _train(ModelConfig(dropout=0.2), [0], max_epochs=1)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(RuntimeError), one_thread():
        raise RuntimeError
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("epoch", [-1, 2])
def test_epochs_that_were_not_trained(epoch):
    (trained,) = _train(ModelConfig(), [0], max_epochs=1)
    with pytest.raises(ValueError, match="expected a whole number from 0 to 1"):
        trained.model_at(epoch)


def test_unknown_experiment():
    with pytest.raises(ValueError, match="experiment 'nonsense': expected one of walkthrough"):
        experiments.run("nonsense")


def test_an_experiment_is_one_entry(monkeypatch):
    entry = experiments.Experiment(seeds=(0, 5), model=ModelConfig(hidden_size=3))
    monkeypatch.setitem(experiments.EXPERIMENTS, "mine", entry)
    runs = experiments.run("mine")
    assert [run.seed for run in runs] == [0, 5]
    assert all(run.config == entry.model for run in runs)
    for run in runs:
        _check_test_results(run)


def test_an_experiment_with_another_task(monkeypatch):
    """Trained, stopped and tested on the question that its model is configured for."""
    for name in ("TRAINING_DATA", "VALIDATION_DATA", "TEST_DATA"):
        small = dataclasses.replace(getattr(experiments, name), epoch_size=1280)
        monkeypatch.setattr(experiments, name, small)
    task = Task("abcd", "bd")
    entry = experiments.Experiment(seeds=(1,), model=ModelConfig(task=task, hidden_size=16))
    monkeypatch.setitem(experiments.EXPERIMENTS, "mine", entry)
    (run,) = experiments.run("mine")
    (true_negatives, false_positives), (false_negatives, true_positives) = run.confusion_matrix
    assert true_negatives > 10 * false_positives and true_positives > 2 * false_negatives
    for string in run.wrong_strings:
        assert contains_all(string, "bd") != (run.model.trace([string]).output_logits.item() > 0)


def test_results_are_those_of_plain_counting(generalization_errors):
    assert generalization_errors.wrong_strings
    _check_test_results(generalization_errors)


def _check_test_results(run):
    model, table, wrong = run.model, [[0, 0], [0, 0]], []
    for batch in next(experiments.TEST_DATA.epochs()):
        logits = model(*from_counts(batch.counts)).output_logits.tolist()
        for row, logit in zip(batch.counts.tolist(), logits, strict=True):
            string = model.tokenizer.short_form(row)
            label = contains_all(string)
            table[label][logit > 0] += 1
            if label != (logit > 0):
                wrong.append(string)
    assert run.confusion_matrix == table
    assert run.wrong_strings == sorted(wrong)
