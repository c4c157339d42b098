"""The shortest wrong string against exhaustive search, and against what is known of the trained models."""

from collections import Counter
from dataclasses import replace
from functools import lru_cache, partial
from inspect import signature
from itertools import product

import numpy as np
import pytest
import torch
from flint import arb, ctx

from toy_transformer import experiments
from toy_transformer.data import VariableLengthStrings, concatenate, from_counts
from toy_transformer.editing.hand_written import EXACT
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.all_lengths import NotCertified, certify_all_lengths
from toy_transformer.proofs.bounds import Bounds, _linear
from toy_transformer.proofs.certificate import MAX_BOXES, RADIUS_OF_MINIMUM, check_certificate, enclose_logit
from toy_transformer.proofs.horizon import (
    MAX_LENGTH,
    Undecidable,
    Unfinished,
    certify,
    horizon,
    known_horizon,
    shortest_wrong_string,
)
from toy_transformer.proofs.logit import GELU_MINIMUM
from toy_transformer.task import Task
from toy_transformer.training import TrainingConfig, train
from toy_transformer.weights import build, numbers_of

CONFIGS = [
    ModelConfig(),
    ModelConfig(attend_cls=True),
    ModelConfig(hidden_size=16, num_attention_heads=3),
    ModelConfig(hidden_size=4, attention_head_size=2, feed_forward_size=3),
    ModelConfig(Task("ab", "ab")),
    ModelConfig(Task("abcd", "abd"), attend_cls=True),
    ModelConfig(Task("abcde", "ce"), hidden_size=3, length_scaling=0.4),
    ModelConfig(length_scaling=0.4),
    ModelConfig(hidden_size=4, num_attention_heads=3, attend_cls=True, length_scaling=1.5),
]


def _random_model(config: ModelConfig, seed: int) -> Transformer:
    """Large random weights, and the classifier's sign such that the model is right about the last letter."""
    model = Transformer(config, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(2 * torch.randn(weight.shape, generator=generator))
        model.classifier.weight *= -model.trace([config.task.letters[-1]]).output_logits.sign()
    return model.requires_grad_(False)


@lru_cache
def _all_counts(num_letters: int, longest: int) -> torch.Tensor:
    rows = product(range(longest + 1), repeat=num_letters)
    return torch.tensor([row for row in rows if 1 <= sum(row) <= longest])


def _shortest_by_trying_all(model: Transformer, longest: int) -> int | None:
    """The length of the shortest wrong string, of all up to a length."""
    letters, required = model.config.task.letters, model.config.task.required
    counts = _all_counts(len(letters), longest)
    double = Transformer(model.config).double()
    double.load_state_dict(model.state_dict())
    with torch.no_grad():
        logits = double(*from_counts(counts, torch.float64), num_queries=1).output_logits
    labels = (counts[:, [letters.index(letter) for letter in required]] > 0).all(dim=1)
    wrong = counts[(logits > 0) != labels].sum(dim=1)
    assert logits.abs().min() > 1e-9, "too near 0 for float64 to decide; choose another seed"
    return int(wrong.min()) if len(wrong) else None


def _for_letters(counts: tuple[int, ...], model: Transformer) -> tuple[int, ...]:
    return (*counts, 2, 3)[: len(model.tokenizer.letters)]


def _check_against_trying_all(model: Transformer) -> int | None:
    longest = {2: 300, 3: 60, 4: 20, 5: 10}[len(model.tokenizer.letters)]
    expected = _shortest_by_trying_all(model, longest)
    found = shortest_wrong_string(model, longest)
    assert (found and found.length) == expected
    return expected


@pytest.fixture(scope="module")
def trained(runs) -> list[experiments.Run]:
    return runs["all_initializations"]


@pytest.mark.parametrize("seed", range(20))
def test_random_models_against_trying_all(seed):
    _check_against_trying_all(_random_model(CONFIGS[seed % len(CONFIGS)], seed))


def test_trained_models_against_trying_all(trained):
    lengths = [_check_against_trying_all(run.model) for run in trained]
    assert lengths[0] == 60 and lengths[4] == 37 and lengths[5] is None


@pytest.mark.parametrize("config", [config for config in CONFIGS if config.task != Task("ab", "ab")])
def test_models_trained_a_little_against_trying_all(config):
    """Nearer to right than random ones, so that the search has to look far."""
    small = VariableLengthStrings(config.task, epoch_size=6400)
    validation = concatenate(next(replace(experiments.VALIDATION_DATA, task=config.task).epochs()))
    rule = TrainingConfig(max_epochs=3)
    for run in train([Transformer(config, seed) for seed in (0, 1)], small.epochs(), validation, rule):
        _check_against_trying_all(run.model)


@pytest.mark.parametrize(("seed", "string"), [(5, "abc{2165}"), (0, "a{59}b"), (4, "abc{35}")])
def test_what_is_known(trained, seed, string):
    found = shortest_wrong_string(trained[seed].model)
    assert (found.string, found.label, found.float32_agrees) == (string, 1, True)
    assert found.logit == pytest.approx(trained[seed].model.trace([string]).output_logits.item(), abs=1e-4)
    assert horizon(trained[seed].model) == found.length - 1
    assert horizon(trained[seed].model, found.length - 1) == found.length - 1


@pytest.mark.parametrize("config", CONFIGS)
def test_enclosures_hold_the_logit(config):
    model = _random_model(config, 1).double()
    for counts in [(1, 0, 0), (3, 1, 4), (0, 1000, 1), (123456, 1, 7)]:
        counts = _for_letters(counts, model)
        expected = model(*from_counts(torch.tensor([counts]), torch.float64)).output_logits.item()
        with ctx.workprec(128):
            enclosure = enclose_logit(model, counts)
        assert float(enclosure.mid()) == pytest.approx(expected, rel=1e-9)
        assert enclosure.rad() < 1e-20


@pytest.mark.parametrize("config", CONFIGS)
def test_bounds_hold_every_string_of_a_box(config):
    model = _random_model(config, 2)
    bounds = Bounds(model)
    for low, high in [
        ((1, 1, 0), (4, 9, 3)),
        ((0, 1, 0), (0, 6, 60)),
        ((5, 2, 9), (5, 2, 9)),
        ((1, 10, 1), (3, 900, 2)),
    ]:
        low, high = _for_letters(low, model), _for_letters(high, model)
        (least,), (greatest,) = bounds.logits(np.array([[low, high]], dtype=float))
        steps = [sorted({*range(lo, hi + 1, max((hi - lo) // 4, 1)), hi}) for lo, hi in zip(low, high, strict=True)]
        for counts in product(*steps):
            logit = float(enclose_logit(model, counts).mid())
            assert least - 1e-9 <= logit <= greatest + 1e-9
        if low == high:
            assert greatest - least < 1e-9


def test_linear_bounds_are_those_at_the_corners():
    """As tight as can be: the extremes over a box of what is linear."""
    generator = np.random.default_rng(0)
    matrix, ends = generator.normal(size=(3, 4)), np.sort(generator.normal(size=(2, 5, 4)), axis=0)
    corners = [_linear_at(matrix, ends, corner) for corner in product((0, 1), repeat=4)]
    for found, expected in zip(_linear(matrix, *ends), (np.min(corners, axis=0), np.max(corners, axis=0)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def _linear_at(matrix: np.ndarray, ends: np.ndarray, corner: tuple[int, ...]) -> np.ndarray:
    return np.stack([ends[end, :, i] for i, end in enumerate(corner)], axis=1) @ matrix.T


def test_the_same_proportions_have_the_same_logit(trained):
    model = trained[3].model
    assert enclose_logit(model, (2, 3, 5)).overlaps(enclose_logit(model, (200, 300, 500)))
    assert (enclose_logit(model, (2, 3, 5)) - enclose_logit(model, (200, 300, 500))).abs_upper() < arb(1e-12)


def test_a_tie_is_not_decided():
    model = Transformer()
    with torch.no_grad():
        model.classifier.weight.zero_()
    with pytest.raises(Undecidable, match="its logits are at most 0"):
        shortest_wrong_string(model)


@pytest.mark.parametrize("max_length", [0, -1, True, 10**10])
def test_bad_lengths(max_length):
    with pytest.raises(ValueError, match="expected a whole number from 1 to 1,000,000,000"):
        shortest_wrong_string(Transformer(), max_length)


def test_norm_is_refused():
    for work in (horizon, lambda model: enclose_logit(model, (1, 0, 0))):
        with pytest.raises(ValueError, match="norm='rms': expected a model without norm"):
            work(Transformer(ModelConfig(norm="rms")))
    assert known_horizon(Transformer(ModelConfig(norm="layer"))) is None


def test_the_minimum_of_gelu():
    """Its derivative, Φ(x) + x φ(x), changes its sign within the ball that certificates use."""
    with ctx.workprec(128):
        for end, is_rising in ((-RADIUS_OF_MINIMUM, False), (RADIUS_OF_MINIMUM, True)):
            x = arb(GELU_MINIMUM) + arb(end)
            derivative = (1 + (x / arb(2).sqrt()).erf()) / 2 + x * (-x * x / 2).exp() / (2 * arb.pi()).sqrt()
            assert (derivative > 0) if is_rising else (derivative < 0)


@pytest.mark.parametrize("config", CONFIGS[:4])
def test_weights_far_larger_than_any_training_makes(config):
    """Scores of many thousands: float64 weights underflow to 0, and what is told of single strings stays true."""
    model = _random_model(config, 3)
    with torch.no_grad():
        for weight in (model.self_attention_block.W_Q.weight, model.self_attention_block.W_K.weight):
            weight *= 100
    found = shortest_wrong_string(model, 10_000)
    for counts in product(range(5), repeat=3):
        if 1 <= sum(counts) < (found.length if found else 10_001):
            with ctx.workprec(4096):
                assert (enclose_logit(model, counts) > 0) == (counts[0] > 0 and counts[1] > 0)


def _one_head(**numbers) -> Transformer:
    """Three numbers a token, one head, no feed-forward; all else 0."""
    hidden = {name: [0, 0, 0] for name in ("CLS", "a", "b", "c")}
    maps = {"W_Q": [[0] * 3], "W_K": [[0] * 3], "W_V": [[1, 0, 0]], "W_in": [[0] * 3], "W_out": [[0]] * 3}
    rest = {"W_O": [[1], [0], [0]], "classifier": [[1, 0, 0]]}
    sizes = dict(hidden_size=3, num_attention_heads=1, feed_forward_size=1)
    return build(hidden | maps | rest | numbers, ModelConfig(Task("abc", "a"), **sizes))


def test_terms_that_cancel_are_not_believed():
    """In float64 the value of c is 0, and its logit negative; in truth it is positive, and the answer wrong."""
    large, small = 2.0**14, 2.0**-26
    model = _one_head(
        CLS=[-small / 2, 0, 0],
        a=[4 / large, 0, 0],
        b=[-4 / large, 0, 0],
        c=[large, small, large],
        W_V=[[large, 1, -large]],
    )
    assert shortest_wrong_string(model).string == "c"


def test_scores_of_thousands_of_millions():
    """Leads that float64 can tell from 0, though not to their last digits."""
    lead = 2.0**29
    model = build(
        EXACT
        | {"CLS": [-0.75, -0.75], "W_Q": [[-lead, 0], [0, -lead]], "W_K": [[1, 0], [0, 1]]}
        | {"W_in": [[0, 0], [0, 0]], "classifier": [[1, 1]]}
    )
    assert shortest_wrong_string(model) is None


def test_dropout_has_no_part_in_it(trained):
    model = Transformer(ModelConfig(dropout=0.5))
    model.load_state_dict(trained[5].model.state_dict())
    assert model.training
    assert {shortest_wrong_string(model).float32_agrees for _ in range(10)} == {True}
    assert model.training


def test_a_search_that_is_stopped_at_once_knows_nothing():
    with pytest.raises(Unfinished, match="right up to 0 letters") as stopped:
        shortest_wrong_string(Transformer(), max_boxes=0)
    assert stopped.value.right_up_to == 0


@pytest.mark.parametrize("max_boxes", [0, 1, 2])
def test_a_search_that_is_stopped_answers_for_no_string_that_it_has_not_seen(max_boxes, monkeypatch):
    """c and b come first, and the answer no is right; then comes a, about which it is wrong."""
    monkeypatch.setattr("toy_transformer.proofs.horizon.BOXES_TOGETHER", 1)
    config = ModelConfig(task=Task("abc", "a"))
    zeros = {name: np.zeros_like(numbers).tolist() for name, numbers in numbers_of(Transformer(config)).items()}
    always_no = build(zeros | {"CLS": [1, 0], "classifier": [[-1, 0]]}, config)
    with pytest.raises(Unfinished) as stopped:
        shortest_wrong_string(always_no, max_boxes=max_boxes)
    assert stopped.value.right_up_to == 0
    assert shortest_wrong_string(always_no).string == "a"


def underflowing() -> Transformer:
    """Its unit gives what it sees to the logit, 1e180 times: some 1e-330 in each string with an a or a b.

    In float64 the unit sees 0, and the rest of the logit, some 1e-160, has the right sign.
    """
    numbers = {
        "CLS": [1, 0, 0, 0],
        "a": [0, 1, 0, 0],
        "b": [0, 0, 1, 0],
        "c": [0, 0, 0, 1],
        "W_Q": [[30, 0, 0, 0]] * 2,
        "W_K": [[0, 1, 0, 0], [0, 0, 1, 0]],
        "W_V": [[0, 1e-80, 0, 0], [0, 0, 1e-80, 0]],
        "W_O": [[0, 0], [1e-80, 0], [0, 1e-80], [0, 0]],
        "W_in": [[0, 1e-170, 1e-170, 0]],
        "W_out": [[0], [-1e180], [0], [0]],
        "classifier": [[-1.5e-160, 1, 1, 0]],
    }
    return build(numbers, ModelConfig(hidden_size=4, feed_forward_size=1), torch.float64)


def test_what_underflows_proves_nothing():
    model = underflowing()
    with torch.no_grad():
        assert model.trace(["ab"]).output_logits.item() > 0 > enclose_logit(model, (1, 1, 0))
    for ask in (shortest_wrong_string, horizon, lambda model: certify(model, 3)):
        with pytest.raises(Undecidable, match="told from 0 only where they are above"):
            ask(model)
    with pytest.raises(NotCertified, match="letters ab: their logits approach"):
        certify_all_lengths(model.with_length_scaling(2.0))


def test_weights_of_all_magnitudes():
    """What is said is true; and where products overflow or vanish, nothing is said."""
    rng = np.random.default_rng(0)
    shapes = {name: np.shape(numbers) for name, numbers in numbers_of(Transformer()).items()}
    strings = sorted((counts for counts in product(range(3), repeat=3) if any(counts)), key=sum)
    said = Counter()
    for _ in range(100):
        numbers = {name: rng.normal(size=shape) * 10.0 ** rng.integers(-90, 90) for name, shape in shapes.items()}
        config = ModelConfig(attend_cls=bool(rng.integers(2)), length_scaling=float(rng.choice([0, 1])))
        model = build({name: array.tolist() for name, array in numbers.items()}, config, torch.float64)
        try:
            wrong = shortest_wrong_string(model, max_length=2)
        except Undecidable:
            said["nothing"] += 1
            continue
        said["wrong" if wrong else "right"] += 1
        for counts in strings:
            if sum(counts) < (wrong.length if wrong else 3):
                logit = enclose_logit(model, counts)
                assert logit > 0 if counts[0] and counts[1] else logit < 0
        if wrong:
            logit = enclose_logit(model, wrong.counts)
            assert logit < 0 if wrong.label else logit > 0
    assert said["nothing"] > 10 and said["wrong"] > 10


def test_a_search_has_an_end(walkthrough, monkeypatch):
    """With scores in the hundreds of thousands of millions, float64 can hardly tell one string from the next."""
    numbers = numbers_of(walkthrough.model)
    model = build(numbers | {"W_Q": [[1e11 * x for x in row] for row in numbers["W_Q"]]})
    limited = partial(shortest_wrong_string, max_boxes=4000)
    with pytest.raises(Unfinished) as stopped:
        limited(model)
    assert 1 <= stopped.value.right_up_to < 1000
    monkeypatch.setattr("toy_transformer.proofs.horizon.shortest_wrong_string", limited)
    assert known_horizon(model) is None


@pytest.mark.parametrize("search", [shortest_wrong_string, certify, certify_all_lengths, check_certificate])
def test_every_search_has_a_limit(search):
    assert signature(search).parameters["max_boxes"].default == MAX_BOXES


def test_the_greatest_length():
    assert shortest_wrong_string(Transformer(), MAX_LENGTH).length < 10
    with pytest.raises(ValueError, match="expected a whole number from 1 to 1,000,000,000"):
        shortest_wrong_string(Transformer(), MAX_LENGTH + 1)


def test_the_margin_grows_with_the_scores(trained, monkeypatch):
    """By length scaling, of which the greatest factor in a box counts."""
    bounds = Bounds(trained[5].model.with_length_scaling(1.0))
    box = np.array([[(1, 1, 1), (1, 1, 10_000)]], dtype=float)
    factor = np.log(10_002)
    for times, decided in [(0.9, False), (1.1, True)]:
        logit = np.array([times * factor * bounds.margin])
        monkeypatch.setattr(bounds, "logits", lambda boxes, logit=logit: (logit, logit))
        assert bounds.decide(box, np.array([True])) == [decided]


def test_small_logits_are_decided(trained):
    numbers = numbers_of(trained[5].model)
    tiny = build(numbers | {"classifier": [[1e-12 * x for x in numbers["classifier"][0]]]}, dtype=torch.float64)
    assert shortest_wrong_string(tiny).string == "abc{2165}"


def test_nothing_longer_than_the_length_is_looked_at(trained):
    assert shortest_wrong_string(trained[5].model, 2166) is None


@pytest.mark.parametrize(("size", "agrees"), [(0.7, True), (1e-30, False)])
def test_what_float32_says_is_told(size, agrees):
    """A model that says yes to all, by a logit of 0.49, or of 1e-60, which is 0 in float32."""
    nothing = {name: np.zeros(np.shape(numbers)).tolist() for name, numbers in numbers_of(Transformer()).items()}
    wrong = shortest_wrong_string(build(nothing | {"CLS": [size, 0], "classifier": [[size, 0]]}))
    assert (wrong.length, wrong.label, wrong.float32_agrees) == (1, 0, agrees)
    assert wrong.logit == pytest.approx(size**2, rel=1e-6)
