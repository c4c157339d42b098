"""Proofs for all lengths: the expected verdicts, and the inequality itself on many strings."""

from itertools import combinations

import pytest
import torch
from flint import arb, ctx

from toy_transformer.editing.hand_written import EXACT
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.all_lengths import Limit, NotCertified, _from_length, certify_all_lengths
from toy_transformer.proofs.certificate import enclose_logit
from toy_transformer.proofs.horizon import horizon
from toy_transformer.proofs.logit import logit_of
from toy_transformer.task import Task
from toy_transformer.weights import build


@pytest.fixture(scope="module")
def trained(runs) -> list[Transformer]:
    return [run.model for run in runs["all_initializations"]]


@pytest.mark.parametrize(("seed", "length_scaling", "from_length"), [(5, 0.5, 8), (2, 1.0, 3)])
def test_certified(trained, seed, length_scaling, from_length):
    model = trained[seed].with_length_scaling(length_scaling)
    proof = certify_all_lengths(model)
    assert proof.from_length == from_length and proof.certificate["max_length"] == from_length - 1
    assert len(proof.limits) == 7
    assert horizon(model) == 10**6
    assert horizon(trained[seed]) < 10**4


@pytest.mark.parametrize(
    ("seed", "length_scaling", "reason"),
    [
        (0, 1.0, "head 0, letters bc: the lead of c, 0.36, times κ is not above 1"),
        (5, 0.0, "length_scaling=0"),
        (2, 0.5, "the bounds do not decide strings of 1,000,000 letters"),
    ],
)
def test_not_certified(trained, seed, length_scaling, reason):
    with pytest.raises(NotCertified, match=reason):
        certify_all_lengths(trained[seed].with_length_scaling(length_scaling))


def test_a_wrong_limit_is_not_certified(trained):
    model = trained[5].with_length_scaling(0.5)
    model.classifier.weight.data *= -1
    with pytest.raises(NotCertified, match="letters a: their logits approach .*, which is not right"):
        certify_all_lengths(model)


def test_a_wrong_short_string_is_not_certified():
    """Large leads that settle early in the limit, but one string of two letters is wrong."""
    lead = 1.2
    numbers = EXACT | {
        "CLS": [-0.85, -0.85],
        "W_Q": [[-lead / 0.85, 0], [0, -lead / 0.85]],
        "W_K": [[1, 0], [0, 1]],
        "W_in": [[0, 0], [0, 0]],
        "classifier": [[1, 1]],
    }
    with pytest.raises(NotCertified, match="the model is wrong about ab"):
        certify_all_lengths(build(numbers).with_length_scaling(1.0))


def test_the_distance_holds(trained):
    """The logit of a string is no farther from its limit than the bound says, wherever κ ln n is at least 1."""
    for seed, length_scaling in [(5, 0.5), (2, 1.0), (4, 0.3)]:
        model = trained[seed].with_length_scaling(length_scaling)
        proof = certify_all_lengths(model)
        for limit in proof.limits:
            places = ["abc".index(letter) for letter in limit.letters]
            for length in (29, 31, 64, 1000, 54321):
                for cuts in combinations(sorted({1, 2, length // 3, length // 2, length - 1}), len(places) - 1):
                    ends, counts = (0, *cuts, length), [0, 0, 0]
                    for place, start, end in zip(places, ends, ends[1:], strict=False):
                        counts[place] = end - start
                    with ctx.workprec(128):
                        distance = abs(enclose_logit(model, tuple(counts)) - limit.logit)
                        assert distance < limit.distance(length) + 1e-30


def test_the_terms_of_a_limit(trained):
    """L R and κ D of each head, from the formula in float64."""
    model = trained[5].with_length_scaling(0.5)
    logit, limits = logit_of(model), {limit.letters: limit for limit in certify_all_lengths(model).limits}
    a, b, _ = logit.values[:, :, 0].T
    steepness = abs(logit.o) + 1.13 * abs(logit.u) @ abs(logit.F)
    expected = zip(steepness * abs(a - b), 0.5 * abs(logit.scores[:, 0] - logit.scores[:, 1]), strict=True)
    expected = list(expected)
    found = [[float(number) for number in term] for term in limits["ab"].terms]
    assert found == [pytest.approx(term, rel=1e-12) for term in expected]
    distance = sum(factor * 99 * 100**-exponent for factor, exponent in expected)
    assert float(limits["ab"].distance(100)) == pytest.approx(distance, rel=1e-9)


TWO_SWITCHES = EXACT | {
    "W_Q": [[-9, 0], [0, -9]],
    "W_K": [[1, 0], [0, 1]],
    "W_in": [[0, 0], [0, 0]],
    "classifier": [[1, 1]],
}
"""Two results, 1 where a letter occurs and else 0, and the logit is their sum and that of the numbers of CLS."""


@pytest.mark.parametrize(
    ("start", "reason"),
    [(-1.0, "letters ab: .* approach 0.000"), (-1.1, "letters ab: .* approach -0.2"), (-0.25, "letters a: .* 0.5")],
)
def test_a_limit_must_be_clear_of_0_on_the_right_side(start, reason):
    with pytest.raises(NotCertified, match=reason):
        certify_all_lengths(build(TWO_SWITCHES | {"CLS": [start, start]}, ModelConfig(length_scaling=1.0)))


def test_a_limit_of_0_is_no_no():
    with pytest.raises(NotCertified, match="letters a: their logits approach 0.000"):
        certify_all_lengths(build(TWO_SWITCHES | {"CLS": [-0.5, -0.5]}, ModelConfig(length_scaling=1.0)))


def test_from_which_length_on_a_bound_falls():
    """(n − 1) n^(−p) falls from p / (p − 1) on; beyond about a million letters nothing is decided."""
    near_one = [Limit("ab", arb(1), [(arb("1e-9"), 1 + arb(1) / length)]) for length in (700_000, 1_500_000)]
    assert _from_length(near_one[:1], 1.0) == 700_002
    with pytest.raises(NotCertified, match="do not decide strings of 1,000,000 letters"):
        _from_length(near_one, 1.0)


@pytest.mark.parametrize("option", [dict(norm="rms"), dict(attend_cls=True)])
def test_models_of_which_the_proof_does_not_speak(option):
    with pytest.raises(ValueError, match="expected a model without either"):
        certify_all_lengths(Transformer(ModelConfig(length_scaling=1.0, **option)))


def test_larger_heads():
    """Two heads of size 2 can do what four of size 1 can: the values of a head share one bound."""
    config = ModelConfig(attention_head_size=2, length_scaling=1.0)
    numbers = EXACT | {
        "CLS": [-0.75, -0.75],
        "W_Q": [[-20, 0], [0, 0], [0, 0], [0, -20]],
        "W_K": [[1, 0], [0, 0], [0, 0], [0, 1]],
        "W_V": [[1, 0], [0, 0], [0, 0], [0, 1]],
        "W_O": [[1, 0, 0, 0], [0, 0, 0, 1]],
        "W_in": [[0, 0], [0, 0]],
        "classifier": [[1, 1]],
    }
    proof = certify_all_lengths(build(numbers, config))
    assert torch.tensor([float(limit.logit.mid()) for limit in proof.limits]).tolist() == pytest.approx(
        [-0.5, -0.5, -1.5, 0.5, -0.5, -0.5, 0.5]
    )


def test_a_value_that_is_hard_to_tell_is_not_left_out():
    """The values of c and a differ by less than 128 bits can tell, next to numbers of 2^128."""
    large = 2.0**64
    config = ModelConfig(Task("abc", "a"), hidden_size=4, feed_forward_size=1, length_scaling=10.0)
    zeros = [0.0] * 4
    numbers = {
        "CLS": [0, 0, 1, 0],
        "a": [1, 0, 0, 0],
        "b": zeros,
        "c": [0, large, 1, large],
        "W_Q": [[0, 0, 1, 0], zeros],
        "W_K": [[3, 0, 0, 0], zeros],
        "W_V": [[1, 0, 0, 0], [0, large, 1.5, -large]],
        "W_O": [[1001, 0], [0, 1], [0, 0], [0, 0]],
        "W_in": [zeros],
        "W_out": [[0]] * 4,
        "classifier": [[1, -1, -1000, 0]],
    }
    model = build(numbers, config)
    with ctx.workprec(1024):
        assert enclose_logit(model, (1, 0, 3)) < 0
    with pytest.raises(NotCertified):
        certify_all_lengths(model)
