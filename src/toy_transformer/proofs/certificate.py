"""Checks a proof that a model is right about every string up to a length, without trusting how it was found.

All arithmetic is ball arithmetic (Johansson 2017, Arb): what it says of a sign is true of the real-valued
function of the stored weights. Nothing of the search in `horizon.py` or its `bounds.py` is used here.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np
from flint import arb, ctx

from toy_transformer.model import Transformer
from toy_transformer.proofs.logit import GELU_MINIMUM, Logit, function_of, logit_of
from toy_transformer.task import contains_all

Box = tuple[tuple[int, ...], tuple[int, ...]]

MAX_BOXES = 100_000
"""A search of so many boxes proves no more, and to check them takes a minute or two."""

PRECISION = 128
RADIUS_OF_MINIMUM = 1e-10
"""So near to `GELU_MINIMUM` lies the minimum of GELU."""


class CertificateError(ValueError):
    """A certificate does not prove what it says."""


def check_certificate(certificate: dict, model: Transformer, max_boxes: int = MAX_BOXES) -> int:
    """Give the length up to which a certificate proves the model right about every string.

    Raises `CertificateError` where the certificate is of another model, has no such form, leaves out a string, has a
    box in which the sign of the logit is not right throughout, or boxes that overlap (which would not be wrong, but
    take long to check), or more than `max_boxes` boxes; and what `logit_of` raises.
    """
    num_letters = len(model.tokenizer.letters)
    with ctx.workprec(PRECISION):
        logit = logit_of(model, arb)
        max_length, boxes = _read(certificate, num_letters, max_boxes)
        _check_function(certificate["function"], model)
        for box in boxes:
            label, enclosure = _label(box, model), enclose(logit, box)
            if not (enclosure > 0 if label else enclosure < 0):
                raise CertificateError(f"box {box}: its logits, {enclosure}, are not certain to be right")
    uncovered = _uncovered((0,) * num_letters, (max_length,) * num_letters, boxes, max_length)
    if uncovered:
        raise CertificateError(f"no box holds the letter counts {uncovered}")
    return max_length


def _read(certificate: dict, num_letters: int, max_boxes: int) -> tuple[int, list[Box]]:
    try:
        max_length = certificate["max_length"]
        if len(certificate["boxes"]) > max_boxes:
            raise ValueError(f"{len(certificate['boxes']):,} boxes, and {max_boxes:,} are allowed")
        boxes = [(tuple(low), tuple(high)) for low, high in certificate["boxes"]]
        numbers = [max_length, *(number for box in boxes for end in box for number in end)]
        sound = all(type(number) is int and number >= 0 for number in numbers) and max_length >= 1
        sound = sound and all(len(end) == num_letters for box in boxes for end in box)
        certificate["function"]
    except (TypeError, ValueError, KeyError) as error:
        raise CertificateError(f"this is no certificate: {error!r}") from error
    if not sound:
        raise CertificateError("this is no certificate: expected whole numbers, one for each letter")
    return max_length, boxes


def _check_function(claimed: dict, model: Transformer) -> None:
    for name, value in function_of(model).items():
        try:
            agrees = bool(claimed[name] == value)
        except (TypeError, ValueError, KeyError):  # such things as arrays, which compare in other ways
            agrees = False
        if not agrees:
            raise CertificateError(f"the certificate is for another model: its {name} are not those of this one")


def _label(box: Box, model: Transformer) -> bool:
    """The right answer, the same for all strings of the box."""
    low, high = box
    if any(n > m or (n == 0) != (m == 0) for n, m in zip(low, high, strict=True)) or sum(low) == 0:
        raise CertificateError(f"box {box}: its strings do not have the same letters")
    present = [letter for letter, n in zip(model.tokenizer.letters, low, strict=True) if n]
    return contains_all(present, model.config.task.required)


def enclose_logit(model: Transformer, counts: tuple[int, ...]) -> arb:
    """Enclose the logit, as the real-valued function of the stored weights, of one string given as letter counts."""
    return enclose(logit_of(model, arb), (counts, counts))


def enclose(logit: Logit, box: Box) -> arb:
    """Enclose the logits of all strings of a box.

    A weighted mean is monotone in the weight of each token while the others stay: its extremes are at corners.
    """
    low, high = (logit.multiplicities(end) for end in box)
    occurs = [token for token, n in enumerate(high) if n]
    factors = [(logit.config.length_scaling * arb(sum(counts)).log()).max(arb(1)) for counts in box]
    means = []
    for scores, values in zip(logit.scores[:, occurs], logit.values[:, occurs], strict=True):
        counts = [(low[token], high[token]) for token in occurs]
        corners = map(np.array, product(*_extreme_weights(scores, factors, counts)))
        at_corners = zip(*(corner @ values / corner.sum() for corner in corners), strict=True)
        means.extend(reduce(arb.union, numbers) for numbers in at_corners)
    return logit.of_means(np.array(means), enclose_gelu)


def _extreme_weights(scores: Sequence[arb], factors: Sequence[arb], counts: Sequence[tuple[int, int]]) -> list[tuple]:
    """Give the least and the greatest weight of each token, before division by their sum; once, where it is only one.

    Scores count from the largest, for a common factor changes no share. So the greater factor makes the lesser weight.
    """
    largest, weights = max(scores, key=lambda score: score.mid()), []
    for score, (low, high) in zip(scores, counts, strict=True):
        least, greatest = ((factor * (score - largest)).exp() for factor in reversed(factors))
        extremes = low * least, high * greatest
        weights.append(extremes[:1] if low == high and factors[0] == factors[1] else extremes)
    return weights


def _gelu(x: arb) -> arb:
    return x * (1 + (x / arb(2).sqrt()).erf()) / 2


def _gelu_over(x: arb) -> arb:
    """GELU falls up to its minimum and rises from there on: its extremes are at the ends, or at the minimum."""
    least = arb(GELU_MINIMUM, RADIUS_OF_MINIMUM)
    candidates = [_gelu(x.lower()), _gelu(x.upper())] + [_gelu(least)] * x.overlaps(least)
    return reduce(arb.union, candidates)


enclose_gelu = np.frompyfunc(_gelu_over, 1, 1)


def _uncovered(low: tuple, high: tuple, boxes: list[Box], max_length: int) -> tuple[int, ...] | None:
    """Give counts between `low` and `high`, of a string of at most `max_length` letters, that no box holds."""
    high = tuple(min(m, max_length - sum(low) + n) for n, m in zip(low, high, strict=True))
    if sum(high) == 0:
        return None
    touching = [box for box in boxes if all(a <= m and n <= b for a, b, n, m in zip(*box, low, high, strict=True))]
    for box in touching:
        if all(a <= n and m <= b for a, b, n, m in zip(*box, low, high, strict=True)):
            if len(touching) > 1:
                raise CertificateError(f"boxes {touching[0]} and {touching[1]} overlap")
            return None
    faces = [
        (i, face) for a, b in touching for i in range(len(low)) for face in (a[i], b[i] + 1) if low[i] < face <= high[i]
    ]
    if sum(low) == 0:
        faces = [(i, 1) for i in range(len(low)) if high[i] >= 1]
    if not faces:
        return low
    i, face = sorted(faces)[len(faces) // 2]
    below, above = (*high[:i], face - 1, *high[i + 1 :]), (*low[:i], face, *low[i + 1 :])
    return _uncovered(low, below, touching, max_length) or _uncovered(above, high, touching, max_length)
