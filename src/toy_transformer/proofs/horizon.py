"""The horizon: up to which length a model is right about every string, and the shortest one that it gets wrong.

The logit depends on letter counts alone. Branch and bound over boxes of counts (Land and Doig 1960) finds
the shortest wrong string: a box in which the sign of the logit is right throughout is dropped, others are
split, the box with the shortest strings first. Bounds are computed in float64 and believed with a
generous margin only; the sign at a single string is decided in ball arithmetic (Johansson 2017, Arb), which
encloses the real-valued function of the stored weights.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx

from toy_transformer.model import Transformer
from toy_transformer.proofs.bounds import Bounds
from toy_transformer.proofs.certificate import MAX_BOXES, enclose_logit
from toy_transformer.proofs.logit import function_of
from toy_transformer.task import contains_all

BOXES_TOGETHER = 20
"""How many boxes are decided at once: more would look at boxes that need no look, fewer would be calls only."""

MAX_LENGTH = 10**9
"""Longer strings are too much alike: float64 bounds hardly tell one from the next."""

SEARCHED_LENGTH = 10**6
"""So long are the strings that are searched if nothing else is said."""

MAX_PRECISION = 4096
"""Bits. Where so many do not tell a logit from 0, it is taken to be 0."""

Counts = tuple[int, ...]


@dataclass(frozen=True)
class WrongString:
    """The shortest string that a model gets wrong. `label` is the right answer, `logit` the model's, rounded.

    `float32_agrees` says whether the model, evaluated in its own precision, gives the same wrong answer.
    """

    string: str
    counts: Counts
    label: int
    logit: float
    float32_agrees: bool

    @property
    def length(self) -> int:
        return sum(self.counts)


class Undecidable(ArithmeticError):
    """The logit of a string is so near 0 that its sign could not be decided."""


class WrongAbout(ValueError):
    """The model is wrong about a string that it was to be certified for."""


class Unfinished(ArithmeticError):
    """The search was stopped; about every string of at most `right_up_to` letters the model is right."""

    def __init__(self, right_up_to: int):
        super().__init__(f"the search was stopped; the model is right up to {right_up_to:,} letters")
        self.right_up_to = right_up_to


def shortest_wrong_string(
    model: Transformer, max_length: int = SEARCHED_LENGTH, max_boxes: int = MAX_BOXES
) -> WrongString | None:
    """Find a shortest string of at most `max_length` letters that the model gets wrong; None if there is none.

    Raises `ValueError` for a `max_length` that is not a whole number from 1 to `MAX_LENGTH`, for a model with norm and
    for weights that are not finite, and `Undecidable` where a logit is too near 0. It takes milliseconds where logits
    are clear, and long where those of many strings are nearly 0, or where scores are in the thousands of millions:
    after looking at about `max_boxes` sets of strings, as many as it takes for some seconds, it gives up with
    `Unfinished`.
    """
    return _search(model, max_length, max_boxes)[0]


def horizon(model: Transformer, max_length: int = SEARCHED_LENGTH) -> int:
    """Give the length up to which the model is right about every string; `max_length` if it is so far.

    Raises what `shortest_wrong_string` raises.
    """
    wrong = shortest_wrong_string(model, max_length)
    return max_length if wrong is None else wrong.length - 1


def known_horizon(model: Transformer) -> int | None:
    """The horizon; None where a logit is too near 0, or too many nearly are, and for a model with norm."""
    if model.config.norm is not None:
        return None
    try:
        return horizon(model)
    except (Undecidable, Unfinished):
        return None


def certify(model: Transformer, max_length: int, max_boxes: int = MAX_BOXES) -> dict:
    """Give a proof that the model is right about every string of at most `max_length` letters.

    It is plain data, for `certificate.check_certificate`: the length, the function that the model is, and boxes of
    letter counts that cover all strings and in each of which the sign of the logit is right throughout. Raises
    `WrongAbout` where the model is wrong about one of them; and what `shortest_wrong_string` raises, where
    `max_boxes` is explained.
    """
    wrong, boxes = _search(model, max_length, max_boxes)
    if wrong:
        reason = f"the model is wrong about {wrong.string}, of {wrong.length} letters: its logit is {wrong.logit:.3f}"
        raise WrongAbout(reason)
    return {"max_length": max_length, "function": function_of(model), "boxes": boxes}


def _search(
    model: Transformer, max_length: int, max_boxes: int = MAX_BOXES
) -> tuple[WrongString | None, list[tuple[Counts, Counts]]]:
    """Give a shortest wrong string, and the boxes that were found right."""
    if type(max_length) is not int or not 1 <= max_length <= MAX_LENGTH:
        raise ValueError(f"max_length={max_length!r}: expected a whole number from 1 to {MAX_LENGTH:,}")
    bounds, boxes = Bounds(model), [(sum(low), low, high) for low, high in _all_strings(model, max_length)]
    if not bounds.margin < bounds.magnitude:
        size, margin = bounds.magnitude, bounds.margin
        raise Undecidable(f"its logits are at most {size:.1g}, and told from 0 only where they are above {margin:.1g}")
    heapq.heapify(boxes)
    required = [model.tokenizer.letters.index(letter) for letter in model.config.task.required]
    found, right, looked_at = None, [], 0
    while boxes and (found is None or boxes[0][0] < found.length):
        if looked_at >= max_boxes:
            raise Unfinished(boxes[0][0] - 1)
        looked_at += BOXES_TOGETHER
        best = [heapq.heappop(boxes)[1:] for _ in range(min(BOXES_TOGETHER, len(boxes)))]
        ends = np.array(best, dtype=float)
        labels = (ends[:, 0, required] > 0).all(axis=1)
        for (low, high), decided in zip(best, bounds.decide(ends, labels), strict=True):
            if decided:
                right.append((low, high))
            elif low != high:
                for half in _split(low, high, max_length):
                    for quarter in _split(*half, max_length):
                        heapq.heappush(boxes, (sum(quarter[0]), *quarter))
            elif found is None or sum(low) < found.length:
                looked_at += BOXES_TOGETHER  # it takes as long
                wrong = _judge(model, low)
                found, right = (wrong, right) if wrong else (found, [*right, (low, high)])
    return found, right


def _label(model: Transformer, counts: Counts) -> int:
    present = [letter for letter, count in zip(model.tokenizer.letters, counts, strict=True) if count]
    return int(contains_all(present, model.config.task.required))


def _all_strings(model: Transformer, max_length: int) -> Iterator[tuple[Counts, Counts]]:
    """One box for each set of letters that occur: its strings have the same right answer."""
    num_letters = len(model.tokenizer.letters)
    for letters in range(1, 2**num_letters):
        low = tuple(letters >> i & 1 for i in range(num_letters))
        if sum(low) <= max_length:
            yield low, _cut(low, tuple(max_length * occurs for occurs in low), max_length)


def _cut(low: Counts, high: Counts, max_length: int) -> Counts:
    """No count can be larger than the others leave room for."""
    room = max_length - sum(low)
    return tuple([min(h, room + n) for n, h in zip(low, high, strict=True)])


def _split(low: Counts, high: Counts, max_length: int) -> Iterator[tuple[Counts, Counts]]:
    """Halve a box at the geometric mean of the letter whose count is the least certain; a single string stays."""
    if low == high:
        yield low, high
        return
    letter = max(range(len(low)), key=lambda i: high[i] / low[i] if low[i] else 0)
    middle = math.isqrt(low[letter] * high[letter])
    lower, upper = list(high), list(low)
    lower[letter], upper[letter] = middle, middle + 1
    yield low, tuple(lower)
    if sum(upper) <= max_length:
        yield tuple(upper), _cut(tuple(upper), high, max_length)


def _judge(model: Transformer, counts: Counts) -> WrongString | None:
    """Decide one string rigorously."""
    label, logit = _label(model, counts), _signed_logit(model, counts)
    if (logit > 0) == bool(label):
        return None
    string = model.tokenizer.short_form(counts)
    in_training = model.training
    in_float32 = model.eval().trace([string]).output_logits.item() > 0
    model.train(in_training)
    return WrongString(string, counts, label, float(logit.mid()), in_float32 != bool(label))


def _signed_logit(model: Transformer, counts: Counts) -> arb:
    """Enclose the logit so tightly that its sign is certain. Raises `Undecidable` where that takes too many bits."""
    precision = 128
    while precision <= MAX_PRECISION:
        with ctx.workprec(precision):
            logit = enclose_logit(model, counts)
        if logit > 0 or logit < 0:
            return logit
        precision *= 4
    raise Undecidable(f"{model.tokenizer.short_form(counts)}: its logit, {logit}, is too near 0 to have a sign")
