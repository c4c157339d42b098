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

import torch
from flint import arb, ctx
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

from toy_transformer.experiments import classify
from toy_transformer.model import Transformer
from toy_transformer.task import CLS, FIRST_LETTER, contains_all

MARGIN = 1e-9
"""How far a float64 bound must be from 0, in parts of the sum of the magnitudes of all its terms.

Rounding changes a term by about 1e-15 of its size, and a weight by that part of its score.
"""

BOXES_TOGETHER = 32
MAX_PRECISION = 4096
GELU_MINIMUM = -0.7517915246935645
"""Where GELU has its only minimum."""

NORM_EPSILON = {"layer": 1e-5, "rms": torch.finfo(torch.float32).eps}
"""What torch adds to the mean square before it takes the root."""

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


def shortest_wrong_string(model: Transformer, max_length: int = 10**6) -> WrongString | None:
    """Find a shortest string of at most `max_length` letters that the model gets wrong; None if there is none.

    Raises `ValueError` for a `max_length` that is not a whole number of at least 1 and for a model with another
    number of letters than three, and `Undecidable` where a logit is too near 0.
    """
    return _search(model, max_length)[0]


def horizon(model: Transformer, max_length: int = 10**6) -> int:
    """Give the length up to which the model is right about every string; `max_length` if it is so far.

    Raises what `shortest_wrong_string` raises.
    """
    wrong = shortest_wrong_string(model, max_length)
    return max_length if wrong is None else wrong.length - 1


def certify(model: Transformer, max_length: int) -> dict:
    """Give a proof that the model is right about every string of at most `max_length` letters.

    It is plain data, for `certificate.check_certificate`: the length, the weights, and boxes of letter counts
    that cover all strings and in each of which the sign of the logit is right throughout. Raises
    `ValueError` where the model is wrong about one of them, and what `shortest_wrong_string` raises.
    """
    wrong, boxes = _search(model, max_length)
    if wrong:
        raise ValueError(f"the model is wrong about {wrong.string}, of {wrong.length} letters")
    weights = {name: weight.tolist() for name, weight in model.state_dict().items()}
    return {"max_length": max_length, "weights": weights, "boxes": boxes}


def _search(model: Transformer, max_length: int) -> tuple[WrongString | None, list[tuple[Counts, Counts]]]:
    """Give a shortest wrong string, and the boxes that were found right."""
    if type(max_length) is not int or max_length < 1:
        raise ValueError(f"max_length={max_length!r}: expected a whole number of at least 1")
    if len(model.tokenizer.letters) != 3:
        raise ValueError(f"letters {model.tokenizer.letters!r}: only models of three letters are decided")
    bounds, boxes = _Bounds(model), [(sum(low), low, high) for low, high in _all_strings(model, max_length)]
    heapq.heapify(boxes)
    found, right = None, []
    while boxes and (found is None or boxes[0][0] < found.length):
        best = [heapq.heappop(boxes)[1:] for _ in range(min(BOXES_TOGETHER, len(boxes)))]
        undecided = bounds.undecided(best)
        right += [box for box in best if box not in undecided]
        for low, high in undecided:
            if low != high:
                for half in _split(low, high, max_length):
                    heapq.heappush(boxes, (sum(half[0]), *half))
            elif (wrong := _judge(model, low)) is None:
                right.append((low, high))
            elif found is None or wrong.length < found.length:
                found = wrong
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
    return tuple(min(h, max_length - sum(low) + n) for n, h in zip(low, high, strict=True))


def _split(low: Counts, high: Counts, max_length: int) -> Iterator[tuple[Counts, Counts]]:
    """Halve a box at the geometric mean of the letter whose count is the least certain."""
    letter = max(range(len(low)), key=lambda i: high[i] / low[i] if low[i] else 0)
    middle = math.isqrt(low[letter] * high[letter])
    lower, upper = list(high), list(low)
    lower[letter], upper[letter] = middle, middle + 1
    yield low, tuple(lower)
    if sum(upper) <= max_length:
        yield tuple(upper), _cut(tuple(upper), high, max_length)


class _Bounds:
    """What the logit of a model is made of, in float64.

    The heads' weighted means `values` make the state of CLS after attention, cls + W_O · values. The logit is
    classifier · state + feed_forward_output · GELU(W_in · norm(state)).
    """

    def __init__(self, model: Transformer):
        self.model, config, block = model, model.config, model.self_attention_block
        weights = {name: weight.double() for name, weight in model.state_dict().items()}
        W_Q, W_K, W_V, W_O, W_in, W_out = (
            weights[f"self_attention_block.{name}.weight"] for name in ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")
        )
        self.cls, self.classifier = weights["embedding.weight"][CLS], weights["classifier.weight"][0]
        tokens = torch.cat([self.cls[None]] * config.attend_cls + [weights["embedding.weight"][FIRST_LETTER:]])
        identity = torch.eye(config.hidden_size, dtype=torch.float64)
        self.centre = identity - 1 / config.hidden_size if config.norm == "layer" else identity
        normed_cls, tokens = (
            self._norm(x @ self.centre.T, weights.get("self_attention_block.attention_norm.weight"))
            for x in (self.cls, tokens)
        )
        heads, size = block.head_shape
        keys = (tokens @ W_K.T).unflatten(1, (heads, size)).transpose(0, 1)
        query = (W_Q @ normed_cls).view(heads, size, 1) / math.sqrt(size)
        self.scores = (keys @ query)[..., 0]
        self.margin = MARGIN * max(1, (keys.abs() @ query.abs()).max().item())
        self.values = (tokens @ W_V.T).unflatten(1, (heads, size)).permute(1, 2, 0)
        self.W_O, self.constant, self.output = W_O, self.classifier @ self.cls, self.classifier @ W_O
        self.W_in, self.feed_forward_output = W_in, self.classifier @ W_out
        if config.norm:
            self.W_in = W_in * weights["self_attention_block.feed_forward_norm.weight"]

    def _norm(self, x: Float[Tensor, "*shape"], weight: Tensor | None) -> Float[Tensor, "*shape"]:
        if weight is None:
            return x
        return x / (x.square().mean(dim=-1, keepdim=True) + NORM_EPSILON[self.model.config.norm]).sqrt() * weight

    @torch.no_grad()
    def undecided(self, boxes: list[tuple[Counts, Counts]]) -> list[tuple[Counts, Counts]]:
        """Give the boxes in which the sign of the logit is not certain to be right throughout."""
        low, high, size = self.logits(torch.tensor(boxes, dtype=torch.float64))
        positive = torch.tensor([_label(self.model, corner) == 1 for corner, _ in boxes])
        right = torch.where(positive, low > self.margin * size, high < -self.margin * size)
        return [box for box, decided in zip(boxes, right.tolist(), strict=True) if not decided]

    def logits(
        self, boxes: Float[Tensor, "box 2 letter"]
    ) -> tuple[Float[Tensor, "box"], Float[Tensor, "box"], Float[Tensor, "box"]]:
        """Give the least and the greatest logit that a box may have, and the size of its terms."""
        values = self.attention_values(boxes)
        g = _gelu_range(*self.feed_forward_input(*values))
        low, high = (
            self.constant + from_values + from_g
            for from_values, from_g in zip(
                _linear(self.output[None], *values), _linear(self.feed_forward_output[None], *g), strict=True
            )
        )
        state = self.cls.abs() + torch.maximum(values[0].abs(), values[1].abs()) @ self.W_O.abs().T
        if self.model.config.norm:
            state = state / math.sqrt(NORM_EPSILON[self.model.config.norm])
        size = state @ (self.classifier.abs() + self.feed_forward_output.abs() @ self.W_in.abs())
        return low[:, 0], high[:, 0], size

    def feed_forward_input(
        self, low: Float[Tensor, "box value"], high: Float[Tensor, "box value"]
    ) -> tuple[Float[Tensor, "box unit"], Float[Tensor, "box unit"]]:
        if self.model.config.norm is None:
            constant, (z_low, z_high) = self.W_in @ self.cls, _linear(self.W_in @ self.W_O, low, high)
            return constant + z_low, constant + z_high
        constant, (x_low, x_high) = self.centre @ self.cls, _linear(self.centre @ self.W_O, low, high)
        x_low, x_high = constant + x_low, constant + x_high
        epsilon = NORM_EPSILON[self.model.config.norm]
        largest = torch.maximum(x_low.abs(), x_high.abs())
        least = torch.where((x_low <= 0) & (x_high >= 0), 0, torch.minimum(x_low.abs(), x_high.abs()))
        shortest, longest = ((x.square().mean(dim=-1, keepdim=True) + epsilon).sqrt() for x in (least, largest))
        x_low = x_low / torch.where(x_low >= 0, longest, shortest)
        x_high = x_high / torch.where(x_high >= 0, shortest, longest)
        return _linear(self.W_in, x_low, x_high)

    def attention_values(
        self, boxes: Float[Tensor, "box 2 letter"]
    ) -> tuple[Float[Tensor, "box value"], Float[Tensor, "box value"]]:
        """Give the exact range of each weighted mean: it is monotone in each count, so corners have the extremes."""
        corners = torch.cartesian_prod(*[torch.arange(2)] * boxes.shape[-1])
        counts = boxes[:, corners, torch.arange(boxes.shape[-1])]
        if self.model.config.attend_cls:
            counts = torch.cat([torch.ones_like(counts[..., :1]), counts], dim=-1)
        shares = (counts.log()[:, :, None] + self.scores).softmax(dim=-1)
        means = (shares[..., None, :] * self.values).sum(dim=-1).flatten(2)
        return means.amin(dim=1), means.amax(dim=1)


def _linear(
    matrix: Float[Tensor, "out in"], low: Float[Tensor, "box in"], high: Float[Tensor, "box in"]
) -> tuple[Float[Tensor, "box out"], Float[Tensor, "box out"]]:
    middle, reach = (low + high) / 2 @ matrix.T, (high - low) / 2 @ matrix.abs().T
    return middle - reach, middle + reach


def _gelu_range(
    low: Float[Tensor, "box unit"], high: Float[Tensor, "box unit"]
) -> tuple[Float[Tensor, "box unit"], Float[Tensor, "box unit"]]:
    """GELU falls up to its minimum and rises from there on."""
    least = gelu(low.clamp(max=GELU_MINIMUM).maximum(torch.minimum(high, torch.tensor(GELU_MINIMUM).double())))
    least = torch.where(low > GELU_MINIMUM, gelu(low), least)
    return least, torch.maximum(gelu(low), gelu(high))


def _judge(model: Transformer, counts: Counts) -> WrongString | None:
    """Decide one string rigorously."""
    label, logit = _label(model, counts), _signed_logit(model, counts)
    if (logit > 0) == bool(label):
        return None
    float32 = classify(model, torch.tensor([counts])).item()
    string = model.tokenizer.short_form(counts)
    return WrongString(string, counts, label, float(logit.mid()), float32 != bool(label))


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


def enclose_logit(model: Transformer, counts: Counts) -> arb:
    """Enclose the logit, as the real-valued function of the stored weights, of one string given as letter counts."""
    weights = {name: w.double().tolist() for name, w in model.state_dict().items()}
    block = {
        name: weights[f"self_attention_block.{name}.weight"] for name in ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")
    }
    embedding, classifier = weights["embedding.weight"], weights["classifier.weight"][0]
    cls = embedding[CLS]
    attended = [(embedding[FIRST_LETTER + i], n) for i, n in enumerate(counts) if n]
    if model.config.attend_cls:
        attended.append((cls, 1))
    attended = [(_norm(model, weights, "attention_norm", token), n) for token, n in attended]
    asking = _norm(model, weights, "attention_norm", cls)
    heads, size = model.self_attention_block.head_shape
    means = []
    for head in range(heads):
        rows = range(head * size, (head + 1) * size)
        query = [_dot(block["W_Q"][row], asking) for row in rows]
        scores = [
            _dot(query, [_dot(block["W_K"][row], token) for row in rows]) / arb(size).sqrt() for token, _ in attended
        ]
        shares = [n * (score - scores[0]).exp() for score, (_, n) in zip(scores, attended, strict=True)]
        for row in rows:
            values = [_dot(block["W_V"][row], token) for token, _ in attended]
            means.append(_dot(shares, values) / sum(shares, arb(0)))
    after_attention = [x + _dot(row, means) for x, row in zip(cls, block["W_O"], strict=True)]
    normed = _norm(model, weights, "feed_forward_norm", after_attention)
    activation = [_gelu(_dot(row, normed)) for row in block["W_in"]]
    transformed = [x + _dot(row, activation) for x, row in zip(after_attention, block["W_out"], strict=True)]
    return _dot(classifier, transformed)


def _norm(model: Transformer, weights: dict, name: str, x: list) -> list:
    if model.config.norm is None:
        return x
    if model.config.norm == "layer":
        mean = sum(x, arb(0)) / len(x)
        x = [number - mean for number in x]
    length = (_dot(x, x) / len(x) + NORM_EPSILON[model.config.norm]).sqrt()
    weight = weights[f"self_attention_block.{name}.weight"]
    return [number / length * w for number, w in zip(x, weight, strict=True)]


def _dot(left: list, right: list) -> arb:
    return sum((arb(x) * arb(y) for x, y in zip(left, right, strict=True)), arb(0))


def _gelu(x: arb) -> arb:
    return x * (1 + (x / arb(2).sqrt()).erf()) / 2
