"""Models with only some of their heads, and what they are worth."""

import pytest

from toy_transformer import evaluation, experiments
from toy_transformer.data import Batch, concatenate
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.editing.heads import errors_and_horizon, how_far, keep_heads, mean_results
from toy_transformer.editing.reduction import without_heads
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.horizon import horizon
from toy_transformer.weights import build, numbers_of


@pytest.fixture(scope="module")
def models(runs) -> list[Transformer]:
    """Two of the eight models with sixteen heads."""
    return [run.model for run in runs["increased_num_attention_heads"][:2]]


@pytest.fixture(scope="module")
def strings() -> Batch:
    return concatenate(next(experiments.VALIDATION_DATA.epochs()))


@pytest.fixture(scope="module")
def test_strings() -> Batch:
    return concatenate(next(experiments.TEST_DATA.epochs()))


def test_heads_that_are_not_kept_have_their_mean(models, strings):
    means = mean_results(models[0], strings)
    kept = keep_heads(models[0], [2, 8], strings)
    others = {head: mean for head, mean in means.items() if head not in (2, 8)}
    assert numbers_of(kept) == numbers_of(without_heads(models[0], others))
    assert kept.config.num_attention_heads == 2
    with pytest.raises(ValueError, match=r"heads \[16\]: the model has the heads 0 to 15"):
        keep_heads(models[0], [2, 16], strings)


def test_with_all_heads_silent_every_string_has_the_same_logit(models, strings):
    first, *others = keep_heads(models[0], [], strings).trace(["a", "b", "ab", "abc{30000}"]).output_logits.tolist()
    assert others == pytest.approx([first] * 3)


def test_means_are_those_of_the_traces(models, strings):
    some = Batch(strings.counts[:3], strings.labels[:3])
    written = ["".join(n * letter for letter, n in zip("abc", counts, strict=True)) for counts in some.counts.int()]
    expected = models[0].trace(written).means[:, :, 0, 0].mean(dim=0)
    assert [*mean_results(models[0], some).values()] == pytest.approx(expected.tolist(), abs=1e-5)


def test_where_a_logit_is_nought_nothing_is_proved(test_strings):
    model = build(EXACT)
    errors, length = errors_and_horizon(model, test_strings)
    assert length == 0 and errors == len(evaluation.evaluate(model, test_strings).wrong_strings)


def test_how_far_a_model_is_right_to_one_digit_or_that_it_errs(walkthrough, generalization_errors, test_strings):
    assert horizon(walkthrough.model) == 2166 and how_far(walkthrough.model, test_strings) == "2,000"
    assert how_far(generalization_errors.model, test_strings) == "errors"


@pytest.mark.parametrize("config", [{"norm": "rms"}, {"attention_head_size": 2}, {"dropout": 0.1}])
def test_models_of_other_kinds_are_refused(strings, config):
    with pytest.raises(ValueError, match="only models without norm and dropout"):
        mean_results(Transformer(ModelConfig(**config)), strings)


def test_a_head_that_is_not_there_is_refused(models):
    with pytest.raises(ValueError, match="heads 0 to 15"):
        without_heads(models[0], {16: 0.0})
