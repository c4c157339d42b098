"""Checks a proof that a model is right about every string up to a length, without trusting how it was found.

All arithmetic is ball arithmetic (Johansson 2017, Arb): what it says of a sign is true of the real-valued
function of the stored weights. Nothing of the search in `horizon.py` is used here.
"""

from itertools import product

from flint import arb, ctx

from toy_transformer.model import Transformer
from toy_transformer.task import CLS, FIRST_LETTER, contains_all

Box = tuple[tuple[int, ...], tuple[int, ...]]

PRECISION = 128
GELU_MINIMUM = ("-0.7517915246935645", "1e-10")
"""A ball around the only minimum of GELU."""


class CertificateError(ValueError):
    """A certificate does not prove what it says."""


def check_certificate(certificate: dict, model: Transformer) -> int:
    """Give the length up to which a certificate proves the model right about every string.

    Raises `CertificateError` where the certificate is of other weights, has no such form, leaves out a string, has a
    box in which the sign of the logit is not right throughout, or boxes that overlap (which would not be wrong, but
    take long to check); `ValueError` for a model with norm or with weights that are not finite.
    """
    if model.config.norm is not None:
        raise ValueError(f"norm={model.config.norm!r}: only models without norm have certificates")
    max_length, boxes = _read(certificate, len(model.tokenizer.letters))
    if not _has_weights(certificate, model):
        raise CertificateError("the certificate is for other weights")
    with ctx.workprec(PRECISION):
        logits = Logits(model)
        for box in boxes:
            label, logit = _label(box, model), logits.over(box)
            if not (logit > 0 if label else logit < 0):
                raise CertificateError(f"box {box}: its logits, {logit}, are not certain to be right")
    uncovered = _uncovered((0,) * 3, (max_length,) * 3, boxes, max_length)
    if uncovered:
        raise CertificateError(f"no box holds the letter counts {uncovered}")
    return max_length


def _read(certificate: dict, num_letters: int) -> tuple[int, list[Box]]:
    try:
        max_length = certificate["max_length"]
        boxes = [(tuple(low), tuple(high)) for low, high in certificate["boxes"]]
        numbers = [max_length, *(number for box in boxes for end in box for number in end)]
        sound = all(type(number) is int and number >= 0 for number in numbers) and max_length >= 1
        sound = sound and all(len(end) == num_letters == 3 for box in boxes for end in box)
        certificate["weights"]
    except (TypeError, ValueError, KeyError) as error:
        raise CertificateError(f"this is no certificate: {error!r}") from error
    if not sound:
        raise CertificateError("this is no certificate: expected whole numbers, three at each end of a box")
    return max_length, boxes


def _has_weights(certificate: dict, model: Transformer) -> bool:
    try:
        return certificate["weights"] == {name: weight.tolist() for name, weight in model.state_dict().items()}
    except (TypeError, ValueError):  # such things as arrays, which compare in other ways
        return False


def _label(box: Box, model: Transformer) -> bool:
    """The right answer, the same for all strings of the box."""
    low, high = box
    if any(n > m or (n == 0) != (m == 0) for n, m in zip(low, high, strict=True)) or sum(low) == 0:
        raise CertificateError(f"box {box}: its strings do not have the same letters")
    present = [letter for letter, n in zip(model.tokenizer.letters, low, strict=True) if n]
    return contains_all(present, model.config.task.required)


class Logits:
    """Encloses the logit of a model without norm.

    It is constant + output · values + feed_forward_output · GELU(bias + feed_forward_input · values). A token's
    scores, one for each head, are `scores[head][token]`; its values, one for each row of W_V, `values[token][row]`.
    """

    def __init__(self, model: Transformer):
        weights = {name.split(".")[-2]: _arbs(weight.tolist()) for name, weight in model.state_dict().items()}
        if not all(weight.isfinite().all() for weight in model.state_dict().values()):
            raise ValueError("a weight of the model is not a finite number")
        (classifier,), W_O, W_in = weights["classifier"], weights["W_O"], weights["W_in"]
        cls, letters = weights["embedding"][CLS], weights["embedding"][FIRST_LETTER:]
        self.attend_cls, self.length_scaling = model.config.attend_cls, model.config.length_scaling
        heads, self.head_size = model.self_attention_block.head_shape
        tokens = [cls] * self.attend_cls + letters
        query = [_dot(row, cls) for row in weights["W_Q"]]
        keys, self.values = (
            [[_dot(row, token) for row in weights[name]] for token in tokens] for name in ("W_K", "W_V")
        )
        of_head = [slice(head * self.head_size, (head + 1) * self.head_size) for head in range(heads)]
        self.scores = [[_dot(query[part], key[part]) / arb(self.head_size).sqrt() for key in keys] for part in of_head]
        columns = list(zip(*W_O, strict=True))
        self.constant, self.output = _dot(classifier, cls), [_dot(classifier, column) for column in columns]
        self.bias = [_dot(row, cls) for row in W_in]
        self.feed_forward_input = [[_dot(row, column) for column in columns] for row in W_in]
        self.feed_forward_output = [_dot(classifier, column) for column in zip(*weights["W_out"], strict=True)]

    def over(self, box: Box) -> arb:
        """Enclose the logits of all strings of a box.

        A weighted mean is monotone in the weight of each token while the others stay: its extremes are at corners.
        """
        occurs = [token for token, n in enumerate(self.multiplicities(box[1])) if n]
        values = []
        for head, scores in enumerate(self.scores):
            weights = self.extreme_weights(box, [scores[token] for token in occurs], occurs)
            for row in range(head * self.head_size, (head + 1) * self.head_size):
                of_row = [self.values[token][row] for token in occurs]
                values.append(_hull([_dot(corner, of_row) / sum(corner) for corner in product(*weights)]))
        return self.of_values(values)

    def extreme_weights(self, box: Box, scores: list[arb], occurs: list[int]) -> list[tuple[arb, arb]]:
        """Give the least and the greatest weight, before division by their sum, of each token that occurs."""
        # Scores count from the largest, for a common factor changes no share.
        largest = max(scores, key=lambda score: score.mid())
        low, high = (self.multiplicities(end) for end in box)
        factors = [(self.length_scaling * arb(sum(end)).log()).max(arb(1)) for end in box]
        weights = []
        for token, score in zip(occurs, scores, strict=True):
            leads = [factor * (score - largest) for factor in factors]
            least, most = leads[0].min(leads[1]), leads[0].max(leads[1])
            weights.append((low[token] * least.exp(), high[token] * most.exp()))
        return weights

    def multiplicities(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        return (1,) * self.attend_cls + counts

    def of_values(self, values: list[arb]) -> arb:
        z = [bias + _dot(row, values) for bias, row in zip(self.bias, self.feed_forward_input, strict=True)]
        return self.constant + _dot(self.output, values) + _dot(self.feed_forward_output, [_gelu_over(x) for x in z])


def _arbs(numbers: list) -> list:
    return [_arbs(x) if isinstance(x, list) else arb(x) for x in numbers]


def _dot(left: list[arb], right: list[arb]) -> arb:
    return sum((x * y for x, y in zip(left, right, strict=True)), arb(0))


def _hull(balls: list[arb]) -> arb:
    hull, *others = balls
    for ball in others:
        hull = hull.union(ball)
    return hull


def _gelu(x: arb) -> arb:
    return x * (1 + (x / arb(2).sqrt()).erf()) / 2


def _gelu_over(x: arb) -> arb:
    """GELU falls up to its minimum and rises from there on: its extremes are at the ends, or at the minimum."""
    least = arb(*GELU_MINIMUM)
    candidates = [_gelu(x.lower()), _gelu(x.upper())] + [_gelu(least)] * x.overlaps(least)
    return _hull(candidates)


def _uncovered(low: tuple, high: tuple, boxes: list[Box], max_length: int) -> tuple[int, ...] | None:
    """Give counts between `low` and `high`, of a string of at most `max_length` letters, that no box holds."""
    high = tuple(min(m, max_length - sum(low) + n) for n, m in zip(low, high, strict=True))
    if sum(low) > max_length or sum(high) == 0:
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
