"""Models without what they never needed: the same functions, to the last certificate."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from toy_transformer import experiments
from toy_transformer.data import concatenate, from_counts
from toy_transformer.editing.heads import errors_and_horizon, keep_heads
from toy_transformer.editing.reduction import readers_of, readings, reduce_exactly, squeeze, without_heads
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.certificate import check_certificate
from toy_transformer.proofs.horizon import certify, shortest_wrong_string
from toy_transformer.proofs.logit import function_of
from toy_transformer.studies import sweeps
from toy_transformer.studies.leads import leading_heads
from toy_transformer.task import Task
from toy_transformer.training import TrainingConfig
from toy_transformer.weights import build, numbers_of

SETS = ["a", "b", "c", "ab", "ac", "bc", "abc"]


def random_counts(num_strings: int) -> torch.Tensor:
    """Strings of up to millions of letters, some without one of them."""
    generator = torch.Generator().manual_seed(0)
    counts = (10 ** (6 * torch.rand(num_strings, 3, generator=generator))).round()
    counts *= torch.rand(num_strings, 3, generator=generator) < 0.8
    return counts[counts.sum(dim=1) > 0]


def logits(model: Transformer) -> torch.Tensor:
    with torch.no_grad():
        return model.double()(*from_counts(random_counts(300), torch.float64)).output_logits


def num_numbers(model: Transformer) -> int:
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_trained_models_are_reduced_exactly(runs, name):
    """Equal logits, the same shortest wrong string, and the original's proof holds for the reduced model."""
    for run in runs[name]:
        model, reduced = run.model, reduce_exactly(run.model)
        config = model.config
        assert reduced.config == replace(config, hidden_size=2 if config.hidden_size == 2 else 3)
        assert num_numbers(reduced) == num_numbers(model) or config.hidden_size == 16
        wrong = shortest_wrong_string(model)
        assert shortest_wrong_string(reduced).string == wrong.string
        if wrong.length > 1:
            certificate = certify(model, wrong.length - 1)
            claim = certificate | {"function": function_of(reduced)}
            assert check_certificate(claim, reduced) == wrong.length - 1
        torch.testing.assert_close(logits(reduced), logits(model), rtol=0, atol=1e-5)


def test_hidden_size_16_was_never_needed(runs):
    """What two heads, or sixteen, add to CLS is read by three rows only: three dimensions hold all of it."""
    sizes = {}
    for name in ("increased_dimensionality", "increased_num_attention_heads"):
        model = runs[name][0].model
        sizes[name] = num_numbers(model), num_numbers(reduce_exactly(model))
    assert sizes == {"increased_dimensionality": (288, 54), "increased_num_attention_heads": (1184, 222)}


def untrained(seed: int, **config) -> dict:
    return numbers_of(Transformer(ModelConfig(hidden_size=5, num_attention_heads=3, **config), seed=seed))


def scaled(rows: list, index: int, like: int, factor: float) -> None:
    rows[index] = [factor * x for x in rows[like]]


@pytest.mark.parametrize("attend_cls", [False, True])
@pytest.mark.parametrize("length_scaling", [0.0, 0.7])
def test_heads_that_add_nothing_of_their_own_go(attend_cls, length_scaling):
    """One whose values are all the same, one without an output, and one like another with values in proportion."""
    config = ModelConfig(hidden_size=5, num_attention_heads=3, attend_cls=attend_cls, length_scaling=length_scaling)
    numbers = untrained(0)
    numbers["W_V"][1] = [0.0] * 5
    for row in numbers["W_O"]:
        row[2] = 0.0
    expected = {1: numbers}
    numbers = untrained(1)
    for name in ("W_Q", "W_K"):
        scaled(numbers[name], 2, 0, 1.0)
    scaled(numbers["W_V"], 2, 0, -3.0)
    expected[2] = numbers
    cancelling = numbers | {"W_O": [[row[0], row[1], row[0] / 3] for row in numbers["W_O"]]}
    for heads, numbers in expected.items():
        model = build(numbers, config, torch.float64)
        reduced = reduce_exactly(model)
        assert reduced.config.num_attention_heads == heads
        torch.testing.assert_close(logits(reduced), logits(model), rtol=1e-9, atol=1e-9)
    assert reduce_exactly(build(cancelling, config, torch.float64)).config.num_attention_heads == 1


def test_heads_that_look_at_the_same_and_see_other_things_stay():
    numbers = untrained(0)
    scaled(numbers["W_Q"], 1, like=0, factor=1)
    scaled(numbers["W_K"], 1, like=0, factor=1)
    model = build(numbers, ModelConfig(hidden_size=5, num_attention_heads=3))
    reduced = reduce_exactly(model)
    assert reduced.config.num_attention_heads == 3
    torch.testing.assert_close(logits(reduced), logits(model), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("power", [-60, -30, 30, 60])
def test_heads_in_other_scales_are_reduced_exactly(runs, power):
    """What a head's values are multiplied by, its output is divided by: the function is the same, to the last bit."""
    for name in ("walkthrough", "increased_dimensionality"):
        model = runs[name][0].model
        numbers = numbers_of(model)
        numbers["W_V"][0] = [x * 2.0**power for x in numbers["W_V"][0]]
        numbers["W_O"] = [[row[0] / 2.0**power, *row[1:]] for row in numbers["W_O"]]
        other = build(numbers, model.config, torch.float64)
        reduced, expected = reduce_exactly(other), reduce_exactly(model)
        assert reduced.config == expected.config
        torch.testing.assert_close(logits(reduced), logits(model), rtol=0, atol=1e-5)
        assert shortest_wrong_string(reduced).string == shortest_wrong_string(model).string


def test_what_is_not_the_same_function_is_not_given(walkthrough):
    numbers = numbers_of(walkthrough.model)
    numbers["classifier"][0] = [1e12 * x for x in numbers["classifier"][0]]
    with pytest.raises(ArithmeticError, match="a logit of the reduced model is .* off"):
        reduce_exactly(build(numbers))


def test_constant_values_are_folded_into_the_start():
    numbers = untrained(2)
    for token in "abc":
        numbers[token][4] = 1.0
    numbers["W_V"][0] = [0.0, 0.0, 0.0, 0.0, 2.5]
    model = build(numbers, ModelConfig(hidden_size=5, num_attention_heads=3), torch.float64)
    reduced = reduce_exactly(model)
    assert reduced.config.num_attention_heads == 2
    torch.testing.assert_close(logits(reduced), logits(model), rtol=1e-9, atol=1e-9)


def test_a_model_that_reads_nothing_of_its_start_still_has_queries():
    numbers = untrained(3)
    numbers["classifier"] = [[0.0, *numbers["classifier"][0][1:]]]
    numbers["W_in"] = [[0.0, *row[1:]] for row in numbers["W_in"]]
    numbers["CLS"] = [1.0, 0.0, 0.0, 0.0, 0.0]
    for token in "abc":
        numbers[token][0] = 0.0
    values = np.array(numbers["W_V"]) @ np.array(numbers["a"])
    numbers["CLS"] = [1.0, *(-(np.array(numbers["W_O"]) @ values))[1:].tolist()]
    model = build(numbers, ModelConfig(hidden_size=5, num_attention_heads=3), torch.float64)
    torch.testing.assert_close(logits(reduce_exactly(model)), logits(model), rtol=1e-9, atol=1e-9)


def test_a_constant_model_keeps_one_head_and_one_dimension():
    numbers = untrained(4) | {"W_V": [[0.0] * 5] * 3}
    model = build(numbers, ModelConfig(hidden_size=5, num_attention_heads=3), torch.float64)
    reduced = reduce_exactly(model)
    assert (reduced.config.num_attention_heads, reduced.config.hidden_size) == (1, 1)
    torch.testing.assert_close(logits(reduced), logits(model), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("config", [{"norm": "rms"}, {"attention_head_size": 2}, {"dropout": 0.1}])
def test_other_models_are_refused(config):
    with pytest.raises(ValueError, match="without norm and dropout, with heads of size 1, can be made smaller"):
        reduce_exactly(Transformer(ModelConfig(**config)))


def test_squeezing_keeps_the_most_of_what_is_read(runs):
    """A pruned model of 54 numbers, squeezed into 36: what is lost is the least singular value, and no more."""
    model = runs["increased_num_attention_heads"][3].model
    two_heads = without_heads(model, dict.fromkeys(set(range(16)) - {7, 8}, 0.0))
    squeezed = squeeze(two_heads, 2)
    assert squeezed.config.architecture == ModelConfig()
    read = readings(two_heads, SETS)
    assert np.linalg.norm(read - readings(squeezed, SETS)) == pytest.approx(np.linalg.svd(read).S[2])
    assert [numbers_of(squeezed)[letter] for letter in "abc"] == [[0, 0], [1, 0], [0, 1]]
    axes = readers_of(squeezed).T.numpy()
    assert abs(axes) == pytest.approx(abs(np.linalg.svd(read).Vh[:2])) and (axes[:, 0] > 0).all()
    rescaled = numbers_of(two_heads)
    rescaled["W_V"][0] = [10 * x for x in rescaled["W_V"][0]]
    rescaled["W_O"] = [[row[0] / 10, row[1]] for row in rescaled["W_O"]]
    same_function = squeeze(build(rescaled, two_heads.config, torch.float64), 2)
    torch.testing.assert_close(logits(same_function), logits(squeezed), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(logits(squeeze(two_heads, 3)), logits(two_heads), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="needs 2"):
        squeeze(two_heads, 1)


def test_what_is_read_decides():
    """The logit is what the classifier reads, and what comes of the other readings by GELU and W_out."""
    model = build(untrained(0), ModelConfig(hidden_size=5, num_attention_heads=3), torch.float64)
    read = torch.from_numpy(readings(model, SETS))
    by_unit = model.classifier.weight @ model.self_attention_block.W_out.weight
    logits = read[:, 0] + torch.nn.functional.gelu(read[:, 1:]) @ by_unit[0]
    torch.testing.assert_close(logits, model.trace(SETS).output_logits, rtol=0, atol=1e-12)


def test_retraining_goes_on_from_where_the_models_are(runs):
    models = [reduce_exactly(run.model) for run in runs["increased_num_attention_heads"][:2]]
    before = [numbers_of(model) for model in models]
    retrained = experiments.retrain(models, TrainingConfig(max_epochs=1))
    assert [numbers_of(model) for model in models] == before
    for run, model in zip(retrained, models, strict=True):
        assert len(run.validation_losses) == 1
        torch.testing.assert_close(logits(run.model_at(0)), logits(model), rtol=0, atol=1e-2)
        assert not torch.allclose(logits(run.model), logits(model), atol=1e-2)


def test_retraining_is_for_the_task_of_the_models():
    model = Transformer(ModelConfig(hidden_size=8, task=Task("abc", "bc")))
    (run,) = experiments.retrain([model], TrainingConfig(max_epochs=5))
    assert (run.model.trace(["ab", "ac", "bc", "abc"]).output_logits > 0).tolist() == [False, False, True, True]


@pytest.mark.weekly
def test_what_small_models_come_to(runs):
    """256 models that are trained small, beside one that is trained large and pruned."""
    without_decay = TrainingConfig(weight_decay=0.0)
    rows, free = (
        sweeps.sweep(ModelConfig(), range(256), training_config=rule) for rule in (TrainingConfig(), without_decay)
    )
    large = runs["increased_num_attention_heads"]
    cost_of_small, cost_of_large = 36 * sum(row.epochs for row in rows), 1184 * sum(len(r.train_losses) for r in large)
    assert 3 < cost_of_small / cost_of_large < 3.5
    best = max(rows, key=lambda row: row.horizon or 0)
    assert f"{best.horizon:.2g}" == "5.7e+03" and best.errors == 0
    assert [row.seed for row in free if row.errors == 0 and row.horizon > 100_000] == [43]
    strings, test_strings = (
        concatenate(next(data.epochs())) for data in (experiments.VALIDATION_DATA, experiments.TEST_DATA)
    )
    two_heads = keep_heads(large[3].model, leading_heads(large[3].model), strings)
    errors, length = errors_and_horizon(squeeze(two_heads, 2), test_strings)
    assert errors == 0 and length > 50 * best.horizon
