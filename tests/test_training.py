import math

import pytest
import torch

from toy_transformer.data import VariableLengthStrings, concatenate, from_counts
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.training import TrainedModel, TrainingConfig, one_thread, train

SMALL = VariableLengthStrings(epoch_size=640, seed=1)
VALIDATION = concatenate(next(VariableLengthStrings(max_length=20, epoch_size=128).epochs()))


def _train(config, seeds, max_epochs=6, **kwargs):
    return _train_all([Transformer(config, seed) for seed in seeds], max_epochs, **kwargs)


def _train_all(models, max_epochs=6, on_epoch=None, **settings):
    return train(models, SMALL.epochs(), VALIDATION, TrainingConfig(max_epochs=max_epochs, **settings), on_epoch)


@pytest.mark.parametrize("config", [ModelConfig(), ModelConfig(hidden_size=4, norm="rms", attend_cls=True)])
def test_side_by_side_is_the_same_as_alone(config):
    together = _train(config, [0, 1, 2])
    for trained in together:
        (alone,) = _train(config, [trained.seed])
        torch.testing.assert_close(trained.train_losses, alone.train_losses, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(trained.validation_losses, alone.validation_losses, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"weight_decay": 0.0}, {"weight_decay": 0.1}, {"beta1": 0.5}])
def test_training_is_that_of_a_plain_loop(settings):
    """One model, torch's AdamW and LinearLR, tokens written out and padded: what a textbook would do."""
    (trained,) = _train(ModelConfig(), [3], max_epochs=3, **settings)
    model, betas = Transformer(seed=3), (settings.pop("beta1", 0.9), 0.999)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=betas, **settings)
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


def test_frozen_parameters_stay():
    models = [Transformer(seed=seed) for seed in (0, 1)]
    for model in models:
        model.self_attention_block.W_Q.weight.requires_grad_(False)
    for trained, model in zip(_train_all(models, max_epochs=2), models, strict=True):
        for name, weight in model.named_parameters():
            moved = not torch.equal(trained.weights[2][name], weight)
            assert moved == (name != "self_attention_block.W_Q.weight")


def test_models_of_which_all_is_frozen():
    with pytest.raises(ValueError, match="all parameters are frozen"):
        _train_all([Transformer().requires_grad_(False)])


def test_models_that_differ_in_what_is_frozen():
    models = [Transformer(seed=0), Transformer(seed=1)]
    models[1].classifier.weight.requires_grad_(False)
    with pytest.raises(ValueError, match="the same frozen parameters"):
        _train_all(models)


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
        assert _validation_loss(best) == pytest.approx(min(model.validation_losses), rel=1e-4, abs=1e-4)


def test_those_that_go_on_remember_when_others_stop():
    """Gradient and square of the gradient of AdamW: each model goes on as it would alone."""
    trained = _train(ModelConfig(hidden_size=16), range(4), 9)
    stops = [len(model.train_losses) for model in trained]
    for model in trained:
        if len(model.train_losses) > min(stops):
            (alone,) = _train(ModelConfig(hidden_size=16), [model.seed], 9)
            torch.testing.assert_close(model.train_losses, alone.train_losses, rtol=1e-4, atol=1e-4)


def test_dropout_is_off_in_validation():
    (trained,) = _train(ModelConfig(dropout=0.3), [0], max_epochs=1)
    assert trained.validation_losses == [pytest.approx(_validation_loss(trained.model), rel=1e-4)]


def _validation_loss(model):
    logits = model(*from_counts(VALIDATION.counts)).output_logits
    labels = VALIDATION.labels.float()
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum").item()


def test_dropout_is_the_same_each_time():
    first, second = (_train(ModelConfig(dropout=0.2), [1, 2], max_epochs=2) for _ in range(2))
    assert [h.train_losses for h in first] == [h.train_losses for h in second]


@pytest.mark.parametrize(
    "configs", [[], [ModelConfig(), ModelConfig(hidden_size=3)], [ModelConfig(dropout=0.1), ModelConfig()]]
)
def test_models_that_cannot_be_trained_together(configs):
    with pytest.raises(ValueError, match="expected models of one"):
        _train_all([Transformer(config) for config in configs])


def test_training_leaves_the_models_as_they_are():
    model = Transformer(seed=4)
    (trained,) = _train_all([model], max_epochs=1)
    for name, weight in Transformer(seed=4).named_parameters():
        assert torch.equal(model.get_parameter(name), weight)
        assert torch.equal(trained.weights[0][name], weight)


def test_models_that_differ_in_their_initialization_are_trained_together():
    configs = [ModelConfig(), ModelConfig(embedding_init="linear_like", feed_forward_output_init="output_fan_out")]
    together = train(
        [Transformer(config, 1) for config in configs], SMALL.epochs(), VALIDATION, TrainingConfig(max_epochs=2)
    )
    assert [trained.config for trained in together] == configs
    for config, trained in zip(configs, together, strict=True):
        (alone,) = _train(config, [1], max_epochs=2)
        torch.testing.assert_close(trained.train_losses, alone.train_losses, rtol=1e-4, atol=1e-4)


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


@pytest.mark.parametrize(
    "bad",
    [
        dict(max_epochs=0),
        dict(patience=0),
        dict(first_stop_epoch=True),
        dict(learning_rate=0.0, final_learning_rate=0.0),
        dict(learning_rate=math.inf),
        dict(learning_rate=1e-3),
        dict(final_learning_rate=-1e-3),
        dict(weight_decay=-1.0),
        dict(target_loss=math.nan),
        dict(beta1=1.0),
        dict(beta1=-0.1),
    ],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match=f"{[*bad][0]}=.*: expected"):
        TrainingConfig(**bad)
