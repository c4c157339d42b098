"""A proof that a model with length scaling is right about every string of every length.

Let S be the letters that occur, n the length, and τ = κ ln n ≥ 1 the factor of the scores (Chiang and Cholak
2022). In a head, let T be the letter of S with the largest score, D its lead over the next one, and R the largest
distance of a value from T's. The other letters occur at most n − 1 times, and each of them weighs at most exp(−τ D)
of what T weighs, so the head's value is at most R (n − 1) n^(−κ D) away from T's. With T's values the logit is
F*(S); it changes by at most L for each unit of a value. Where κ D > 1 the bound on the logit's distance from F*(S),
the sum of L R (n − 1) n^(−κ D), falls below the size of F*(S) from some length on. Shorter strings have a certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np
from flint import arb, ctx

from toy_transformer.model import Transformer
from toy_transformer.proofs.certificate import MAX_BOXES, PRECISION, check_certificate, enclose_gelu
from toy_transformer.proofs.horizon import SEARCHED_LENGTH, WrongAbout, certify
from toy_transformer.proofs.logit import Logit, logit_of
from toy_transformer.task import contains_all

STEEPEST_GELU = arb("1.13")
"""GELU's derivative is between −0.13 and 1.13."""


class NotCertified(ValueError):
    """There is no such proof for this model; it may or may not be right about every string."""


@dataclass(frozen=True)
class Limit:
    """What becomes of strings with certain letters as they grow: their logits approach `logit`.

    A string of length n is at most `distance(n)` away from it. `terms` has L R and κ D for each
    weighted mean that is not the same for all such strings.
    """

    letters: str
    logit: arb
    terms: Sequence[tuple[arb, arb]]

    def distance(self, length: int) -> arb:
        """Enclose the sum of L R (n − 1) n^(−κ D) for a length n; only for κ ln n ≥ 1 does it bound the distance."""
        n = arb(length)
        return sum((factor * (n - 1) * (-exponent * n.log()).exp() for factor, exponent in self.terms), arb(0))

    def is_near(self, length: int) -> bool:
        """Say whether all logits of strings of this length have the sign of the limit, as far as the bound tells."""
        return self.distance(length) < abs(self.logit)


@dataclass(frozen=True)
class AllLengths:
    """A proof: the bounds decide strings from `from_length` on, and the certificate, which was checked, those below."""

    from_length: int
    limits: Sequence[Limit]
    certificate: dict


def certify_all_lengths(model: Transformer, max_boxes: int = MAX_BOXES) -> AllLengths:
    """Prove that the model is right about every string of every length.

    Raises `NotCertified`, with the reason, where this proof does not hold, and `ValueError` for a model with norm
    or one that attends to CLS, of which the proof does not speak; and what `certify` raises, which `max_boxes` is for.
    """
    config = model.config
    if config.norm is not None or config.attend_cls:
        raise ValueError(f"norm={config.norm!r}, attend_cls={config.attend_cls}: expected a model without either")
    if not config.length_scaling:
        raise NotCertified("length_scaling=0: a lead that does not grow is overcome by many letters")
    with ctx.workprec(PRECISION):
        logit, letters = logit_of(model, arb), range(len(model.tokenizer.letters))
        sets = [present for size in range(1, len(letters) + 1) for present in combinations(letters, size)]
        limits = [_limit(logit, model, present) for present in sets]
        from_length = _from_length(limits, config.length_scaling)
    try:
        certificate = certify(model, from_length - 1, max_boxes)
    except WrongAbout as error:
        raise NotCertified(str(error)) from None
    check_certificate(certificate, model)
    return AllLengths(from_length, limits, certificate)


def _limit(logit: Logit, model: Transformer, present: Sequence[int]) -> Limit:
    letters = "".join(model.tokenizer.letters[letter] for letter in present)
    means, terms = [], []
    for head, (scores, values) in enumerate(zip(logit.scores, logit.values, strict=True)):
        top = max(present, key=lambda letter: scores[letter].mid())
        others = [letter for letter in present if letter != top]
        for i, value in enumerate(values[top]):
            means.append(value)
            distances = [abs(values[letter, i] - value) for letter in others]
            if all(distance == 0 for distance in distances):
                continue
            lead = -reduce(arb.max, [scores[letter] - scores[top] for letter in others])
            exponent = model.config.length_scaling * lead
            if not exponent > 1:
                raise NotCertified(
                    f"head {head}, letters {letters}: the lead of {model.tokenizer.letters[top]}, "
                    f"{float(lead.mid()):.2f}, times κ is not above 1"
                )
            terms.append((_steepness(logit, len(means) - 1) * reduce(arb.max, distances), exponent))
    limit = logit.of_means(np.array(means), enclose_gelu)
    label = contains_all(letters, model.config.task.required)
    if not (limit > 0 if label else limit < 0):
        raise NotCertified(f"letters {letters}: their logits approach {float(limit.mid()):.3f}, which is not right")
    return Limit(letters, limit, terms)


def _steepness(logit: Logit, mean: int) -> arb:
    """How much the logit may change for each unit of one weighted mean: L."""
    return abs(logit.o[mean]) + STEEPEST_GELU * (abs(logit.u) @ abs(logit.F[:, mean]))


def _from_length(limits: Sequence[Limit], length_scaling: float) -> int:
    """Find a length from which on the bounds decide: beyond p / (p − 1), (n − 1) n^(−p) falls."""

    def decided(length: int) -> bool:
        if not length_scaling * arb(length).log() >= 1:
            return False
        falling = all(length * (p - 1) > p for limit in limits for _, p in limit.terms)
        return falling and all(limit.is_near(length) for limit in limits)

    high = 2
    while not decided(high):
        high *= 2
        if high > 2 * SEARCHED_LENGTH:
            raise NotCertified(f"the bounds do not decide strings of {SEARCHED_LENGTH:,} letters")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high
