"""Certificates are accepted as they are made, and refused with the least change."""

import copy
import json
import math
import random
import re
from itertools import product

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch.nn.functional import gelu

from toy_transformer.data import from_counts
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.certificate import (
    PRECISION,
    CertificateError,
    check_certificate,
    enclose,
    enclose_gelu,
    enclose_logit,
)
from toy_transformer.proofs.horizon import certify, horizon
from toy_transformer.proofs.logit import function_of, logit_of
from toy_transformer.task import Task
from toy_transformer.weights import build, numbers_of


@pytest.fixture(scope="module")
def model(walkthrough) -> Transformer:
    return walkthrough.model


@pytest.fixture(scope="module")
def certificate(model) -> dict:
    return json.loads(json.dumps(certify(model, horizon(model))))


def test_a_certificate_is_accepted_and_says_how_far(model, certificate):
    assert check_certificate(certificate, model) == 2166


def test_no_certificate_where_the_model_is_wrong(model):
    with pytest.raises(ValueError, match=r"the model is wrong about abc\{2165\}, of 2167 letters"):
        certify(model, 2167)


def test_each_box_is_needed(model, certificate):
    for i in range(0, len(certificate["boxes"]), max(len(certificate["boxes"]) // 10, 1)):
        tampered = dict(certificate, boxes=certificate["boxes"][:i] + certificate["boxes"][i + 1 :])
        with pytest.raises(CertificateError, match="no box holds the letter counts"):
            check_certificate(tampered, model)


def test_a_widened_box_is_refused(model, certificate):
    """One that reaches to the shortest wrong string."""
    tampered = copy.deepcopy(certificate)
    low, high = next(box for box in tampered["boxes"] if box[0][:2] == [1, 1] and box[1][2] >= 1000)
    high[2] = 4000
    with pytest.raises(CertificateError, match="are not certain to be right"):
        check_certificate(tampered, model)


def test_the_counts_that_are_named_are_in_no_box(model, certificate):
    for i, (low, high) in enumerate(certificate["boxes"]):
        letter = max(range(3), key=lambda letter: high[letter] - low[letter])
        narrower = [*high[:letter], (low[letter] + high[letter]) // 2, *high[letter + 1 :]]
        boxes = [*certificate["boxes"][:i], [low, narrower], *certificate["boxes"][i + 1 :]]
        if narrower == high:
            continue
        with pytest.raises(CertificateError, match="no box holds the letter counts") as refused:
            check_certificate(dict(certificate, boxes=boxes), model)
        counts = [int(n) for n in re.findall(r"\d+", str(refused.value))]
        assert 1 <= sum(counts) <= certificate["max_length"]
        assert not any(all(a <= n <= b for a, n, b in zip(low, counts, high, strict=True)) for low, high in boxes)


SHAPES = {name: np.shape(numbers) for name, numbers in numbers_of(Transformer()).items()}


def random_box(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Some letters occur a fixed number of times, or not at all; no string is empty."""
    low = rng.integers(0, 4, size=3) * 10 ** rng.integers(0, 4, size=3)
    low[0] += not low.any()
    high = low + rng.integers(0, 2, size=3) * rng.integers(1, 9, size=3) * 10 ** rng.integers(0, 4, size=3)
    return tuple(low.tolist()), tuple(high.tolist())


def strings_of(low: tuple[int, ...], high: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """The corners of a box, and strings within it."""
    shares = np.concatenate([list(product((0, 1), repeat=3)), rng.random((400, 3)) ** 4])
    return np.round(low + shares * np.subtract(high, low))


def test_enclosures_hold():
    """Against the model itself, in float64, on many strings of random boxes, whatever the options."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        config = ModelConfig(attend_cls=bool(rng.integers(2)), length_scaling=float(rng.choice([0, 0.5, 2])))
        numbers = {name: (rng.choice([0.5, 1, 2]) * rng.normal(size=shape)).tolist() for name, shape in SHAPES.items()}
        model, (low, high) = build(numbers, config, torch.float64), random_box(rng)
        with ctx.workprec(PRECISION):
            enclosure = enclose(logit_of(model, arb), (low, high))
        counts = torch.from_numpy(strings_of(low, high, rng))
        logits = model(*from_counts(counts, torch.float64), num_queries=1).output_logits
        assert float(enclosure.lower()) - 1e-9 <= logits.min() and logits.max() <= float(enclosure.upper()) + 1e-9
        if low == high:
            assert enclosure.rad() < 1e-20


def test_gelu_is_enclosed():
    """Wherever its minimum, at about −0.75, lies in an interval."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        low, high = np.sort(rng.normal(-0.75, rng.choice([0.01, 1, 5]), size=2))
        enclosure = enclose_gelu(arb(float(low)).union(arb(float(high))))
        values = gelu(torch.linspace(low, high, 100, dtype=torch.float64))
        assert float(enclosure.lower()) - 1e-12 <= values.min() and values.max() <= float(enclosure.upper()) + 1e-12
        assert float(enclosure.upper() - enclosure.lower()) <= values.max() - values.min() + 1e-3 * (high - low)


def always(logit: float, **config) -> Transformer:
    """A model that says the same of every string."""
    nothing = {name: np.zeros(shape).tolist() for name, shape in SHAPES.items()}
    return build(nothing | {"CLS": [logit, 0], "classifier": [[1, 0]]}, ModelConfig(**config))


ONE_STRING = {False: [[1, 0, 0], [1, 0, 0]], True: [[1, 1, 0], [1, 1, 0]]}


@pytest.mark.parametrize(("logit", "label"), [(0.0, False), (0.5, False), (0.0, True), (-0.5, True)])
def test_a_wrong_or_open_answer_proves_nothing(logit, label):
    model = always(logit)
    claim = {"max_length": 2, "function": function_of(model), "boxes": [ONE_STRING[label]]}
    with pytest.raises(CertificateError, match=re.escape(f"box {tuple(map(tuple, ONE_STRING[label]))}: its logits")):
        check_certificate(claim, model)


def test_a_letter_that_occurs_once_in_a_box_weighs_more_in_its_short_strings():
    """By length scaling: a has the smaller score, so its share is the largest where the string is shortest."""
    numbers = {name: np.zeros(shape).tolist() for name, shape in SHAPES.items()}
    numbers |= {"CLS": [1, 0], "a": [0, -1], "W_Q": [[1, 0], [0, 0]], "W_K": [[0, 1], [0, 0]], "W_V": [[0, 1], [0, 0]]}
    model = build(numbers | {"W_O": [[1, 0], [0, 0]], "classifier": [[1, 0]]}, ModelConfig(length_scaling=1.0))
    with ctx.workprec(PRECISION):
        enclosure = enclose(logit_of(model, arb), ((1, 1, 0), (1, 1000, 0)))
        assert all(enclosure.contains(enclose_logit(model, (1, n, 0))) for n in (1, 2, 4, 10, 1000))


def test_two_boxes_that_overlap_are_named(model, certificate):
    both = [[0, 0, 1], [0, 0, 2166]], [[0, 0, 5], [0, 0, 9]]
    boxes = [*both, *(box for box in certificate["boxes"] if box != both[0])]
    with pytest.raises(CertificateError, match=re.escape("boxes ((0, 0, 1), (0, 0, 2166)) and ((0, 0, 5), (0, 0, 9))")):
        check_certificate(dict(certificate, boxes=boxes), model)


def test_no_box_and_no_letter(model, certificate):
    with pytest.raises(CertificateError, match=r"no box holds the letter counts \(.*1.*\)"):
        check_certificate(dict(certificate, boxes=[]), model)
    with pytest.raises(CertificateError, match="do not have the same letters"):
        check_certificate(dict(certificate, boxes=[[[0, 0, 0], [0, 0, 0]], *certificate["boxes"]]), model)


def test_as_many_boxes_as_are_allowed(model, certificate):
    number = len(certificate["boxes"])
    assert check_certificate(certificate, model, max_boxes=number) == 2166
    with pytest.raises(CertificateError, match="boxes, and 51 are allowed"):
        check_certificate(certificate, model, max_boxes=number - 1)


def test_a_box_for_each_string_and_none_beyond_is_accepted(model, certificate):
    boxes = [[counts, counts] for counts in product(range(5), repeat=3) if 1 <= sum(counts) <= 4]
    assert check_certificate(certificate | {"max_length": 4, "boxes": boxes}, model) == 4
    with pytest.raises(CertificateError, match="no box holds the letter counts"):
        check_certificate(certificate | {"max_length": 5, "boxes": boxes}, model)


def test_a_longer_length_is_refused(model, certificate):
    with pytest.raises(CertificateError, match="no box holds"):
        check_certificate(dict(certificate, max_length=2167), model)


def test_a_narrowed_box_is_refused(model, certificate):
    tampered = copy.deepcopy(certificate)
    box = max(tampered["boxes"], key=lambda box: sum(box[1]))
    widest = max(range(3), key=lambda i: box[1][i])
    box[1][widest] = box[0][widest]
    with pytest.raises(CertificateError, match="no box holds"):
        check_certificate(tampered, model)


@pytest.mark.parametrize("name", ["embedding.weight", "classifier.weight", "self_attention_block.W_in.weight"])
def test_one_last_bit_of_a_weight_is_enough(model, certificate, name):
    tampered = copy.deepcopy(certificate)
    row = tampered["function"]["weights"][name][0]
    row[0] = torch.tensor(row[0]).nextafter(torch.tensor(math.inf)).item()
    with pytest.raises(CertificateError, match="another model: its weights"):
        check_certificate(tampered, model)


def test_weights_of_another_kind_are_refused(model, certificate):
    arrays = {name: weight.numpy() for name, weight in model.state_dict().items()}
    with pytest.raises(CertificateError, match="another model: its weights"):
        check_certificate(dict(certificate, function=certificate["function"] | {"weights": arrays}), model)


def test_boxes_that_overlap_are_refused_at_once(model, certificate):
    """Thousands of them would keep the check busy for hours."""
    generator = random.Random(0)
    low, high = next((low, high) for low, high in certificate["boxes"] if low[0] > 1 and high[0] > 1000)
    boxes = []
    for _ in range(2000):
        ends = [sorted(generator.randint(n, m) for _ in "ab") for n, m in zip(low, high, strict=True)]
        boxes.append([[start for start, _ in ends], [end for _, end in ends]])
    with pytest.raises(CertificateError, match="overlap"):
        check_certificate(dict(certificate, boxes=certificate["boxes"] + boxes), model)


def test_weights_that_are_not_finite_are_refused(model, certificate):
    broken = copy.deepcopy(model)
    broken.classifier.weight.data[0, 0] = math.inf
    function = function_of(broken)
    for work in (lambda: check_certificate(dict(certificate, function=function), broken), lambda: certify(broken, 5)):
        with pytest.raises(ValueError, match="not a finite number"):
            work()


def test_a_box_of_strings_with_different_answers_is_refused(model, certificate):
    tampered = dict(certificate, boxes=[*certificate["boxes"], [[0, 1, 1], [1, 1, 1]]])
    with pytest.raises(CertificateError, match="do not have the same letters"):
        check_certificate(tampered, model)


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        {"max_length": 5},
        {"max_length": 1.5, "boxes": [], "function": {}},
        {"max_length": 0, "boxes": [], "function": {}},
        {"max_length": 5, "boxes": [[[1], [2]]], "function": {}},
        {"max_length": 5, "boxes": [[[0, 0, -1], [1, 1, 1]]], "function": {}},
    ],
)
def test_what_is_no_certificate_is_refused(model, nonsense):
    with pytest.raises(CertificateError, match="this is no certificate"):
        check_certificate(nonsense, model)


@pytest.mark.parametrize("name", ["letters", "required", "num_attention_heads", "attend_cls", "length_scaling"])
def test_a_certificate_of_another_model_is_refused(model, certificate, name):
    """The same weights are another model with another κ, and answer another question."""
    others = {"letters": "acb", "required": "ac", "num_attention_heads": 1, "attend_cls": True, "length_scaling": 0.5}
    with pytest.raises(CertificateError, match=f"another model: its {name} are not those"):
        check_certificate(dict(certificate, function=certificate["function"] | {name: others[name]}), model)


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(Task("ab", "ab")),
        ModelConfig(Task("abcd", "abd")),
        ModelConfig(Task("abcde", "ce"), attend_cls=True),
        ModelConfig(attend_cls=True),
        ModelConfig(hidden_size=4, num_attention_heads=2, attention_head_size=2),
        ModelConfig(length_scaling=0.7),
        ModelConfig(attend_cls=True, length_scaling=2.0),
    ],
)
def test_other_models(config):
    checked = 0
    for seed in range(20):
        model = Transformer(config, seed).requires_grad_(False)
        model.classifier.weight *= -10 * model.trace([config.task.letters[-1]]).output_logits.sign()
        length = horizon(model, 50)
        if length:
            assert check_certificate(certify(model, length), model) == length
            checked += 1
    assert checked >= 3
