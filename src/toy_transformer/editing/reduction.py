"""Smaller models: without what a model never needed, and without some of its heads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from toy_transformer.model import Transformer
from toy_transformer.weights import build, numbers_of

RANK_TOLERANCE = 1e-9
"""Singular values below this share of the largest are rounding: weights are float32, arithmetic is float64."""


@dataclass(frozen=True)
class Essence:
    """All that the logit needs of a model with heads of size 1 and without norm, whatever its hidden size.

    Softmax takes no notice of a constant added to all scores of a head, and a constant in its values is a constant
    in its result; so the tokens' scores and values are differences to the first token that is attended to, whose
    values are `first_values`. `seen` is what the classifier (row 0) and the rows of W_in see of CLS where all heads'
    results are those (column 0), and of what each head adds for a result that is higher by 1. `written` is what the
    classifier sees of what each unit of the feed-forward writes.
    """

    scores: Float[np.ndarray, "head other_token"]
    values: Float[np.ndarray, "head other_token"]
    first_values: Float[np.ndarray, "head"]
    seen: Float[np.ndarray, "reader start_and_heads"]
    written: Float[np.ndarray, "unit"]

    @property
    def reach(self) -> Float[np.ndarray, "head"]:
        """How far apart a head's results can be."""
        return np.ptp(np.pad(self.values, ((0, 0), (1, 0))), axis=1)

    @property
    def moves(self) -> Float[np.ndarray, "reader start_and_heads"]:
        """What the readers see of where CLS starts, and of the farthest that each head can move it."""
        return self.seen * np.array([1, *self.reach])


def reduce_exactly(model: Transformer) -> Transformer:
    """Give a model of the least hidden size, and with fewer heads where that is plain, that is the same function.

    Heads whose results do not depend on the string are folded into where CLS starts; of heads with the same scores
    and with values in proportion one stays. The rest is a change of basis onto what is used. What is smaller than the
    largest number of its kind by `RANK_TOLERANCE` counts as nothing. The result is in float64. Raises `ValueError`
    for a model with norm, with heads of more than one number, or with dropout.
    """
    return _build(_merge_heads(essence_of(model)), model)


def squeeze(model: Transformer, hidden_size: int) -> Transformer:
    """Give the nearest model of a hidden size: of what is read from the residual stream, the least is left out.

    "Nearest" is meant for the matrix `Essence.moves`, of which the truncated singular value decomposition is the
    best approximation (Eckart and Young 1936). In float64. Raises `ValueError` as `reduce_exactly` does, and where
    the tokens need more dimensions to have their scores and values.
    """
    essence = essence_of(model)
    left, singular, right = np.linalg.svd(essence.moves, full_matrices=False)
    singular[hidden_size:] = 0
    seen = left * singular @ right / np.array([1, *np.where(essence.reach > 0, essence.reach, 1)])
    return _build(replace(essence, seen=seen), model, hidden_size)


def check_reducible(model: Transformer) -> None:
    """Raise `ValueError` for a model with norm, with heads of more than one number, or with dropout."""
    config = model.config
    if config.norm is not None or config.attention_head_size != 1 or config.dropout:
        raise ValueError(f"{config}: only models without norm and dropout, with heads of size 1, can be made smaller")


def without_heads(model: Transformer, results: Mapping[int, float]) -> Transformer:
    """Give a model of the least hidden size in which some heads are silent, and gone.

    `results` says, for each of these, which constant stands in for its result. In float64. Raises `ValueError` as
    `reduce_exactly` does, and for a head that the model does not have.
    """
    num_heads = model.config.num_attention_heads
    if unknown := set(results) - set(range(num_heads)):
        raise ValueError(f"heads {sorted(unknown)}: the model has the heads 0 to {num_heads - 1}")
    essence = essence_of(model)
    seen = essence.seen.copy()
    for head, result in results.items():
        seen[:, 0] += (result - essence.first_values[head]) * seen[:, 1 + head]
    kept = [head for head in range(num_heads) if head not in results]
    return _build(_keep(replace(essence, seen=seen), kept, list(seen[:, 1:].T[kept])), model)


def essence_of(model: Transformer) -> Essence:
    """Read off what the logit needs. Raises `ValueError` as `reduce_exactly` does."""
    check_reducible(model)
    weights = {name: np.array(numbers, dtype=float) for name, numbers in numbers_of(model).items()}
    attended = np.stack([weights[token] for token in _attended(model)])
    query = weights["W_Q"] @ weights["CLS"]
    scores, values = query[:, None] * (weights["W_K"] @ attended.T), weights["W_V"] @ attended.T
    readers = np.vstack([weights["classifier"], weights["W_in"]])
    start = weights["CLS"] + weights["W_O"] @ values[:, 0]
    return Essence(
        scores=(scores - scores[:, :1])[:, 1:],
        values=(values - values[:, :1])[:, 1:],
        first_values=values[:, 0],
        seen=readers @ np.column_stack([start, weights["W_O"]]),
        written=(weights["classifier"] @ weights["W_out"])[0],
    )


def _attended(model: Transformer) -> list[str]:
    return ["CLS"] * model.config.attend_cls + list(model.tokenizer.letters)


def _merge_heads(essence: Essence) -> Essence:
    """Leave out heads without an effect, and merge those that always look at the same and see the same."""
    kept, columns = [], []
    for head, column in enumerate(essence.seen[:, 1:].T):
        value = essence.values[head]
        if _is_zero(value, essence.values):
            continue
        twin = next((i for i, other in enumerate(kept) if _are_twins(essence, other, head)), None)
        if twin is None:
            kept.append(head)
            columns.append(column)
        else:
            other = essence.values[kept[twin]]
            columns[twin] = columns[twin] + (value @ other) / (other @ other) * column
    places = [i for i, column in enumerate(columns) if not _is_zero(column, essence.seen)]  # twins may cancel
    return _keep(essence, [kept[i] for i in places], [columns[i] for i in places])


def _keep(essence: Essence, heads: list[int], columns: list[np.ndarray]) -> Essence:
    """Leave some of the heads, with what is seen of each."""
    if not heads:  # a model has at least one
        heads, columns = [0], [np.zeros(len(essence.seen))]
    parts = {name: getattr(essence, name)[heads] for name in ("scores", "values", "first_values")}
    return replace(essence, **parts, seen=np.column_stack([essence.seen[:, 0], *columns]))


def _are_twins(essence: Essence, head: int, other: int) -> bool:
    same = _is_zero(essence.scores[head] - essence.scores[other], essence.scores)
    return same and _rank(essence.values[[head, other]]) < 2


def _is_zero(x: np.ndarray, among: np.ndarray) -> bool:
    return bool(np.abs(x).max() <= RANK_TOLERANCE * np.abs(among).max())


def _rank(matrix: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(matrix, rtol=RANK_TOLERANCE))


def _factor(matrix: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Write a matrix as a product over `size` dimensions, of which those beyond its rank are 0.

    Libraries differ in the signs of singular vectors; here the largest number of each on the left is positive.
    """
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    signs = np.sign(left[np.abs(left).argmax(axis=0), range(left.shape[1])])
    left, right, rank = left * signs, right * signs[:, None], _rank(matrix)
    roots = np.sqrt(singular[:rank])
    factors = np.zeros((len(matrix), size)), np.zeros((size, matrix.shape[1]))
    factors[0][:, :rank], factors[1][:rank] = left[:, :rank] * roots, roots[:, None] * right[:rank]
    return factors


def _build(essence: Essence, model: Transformer, size: int | None = None) -> Transformer:
    """Make a model with an essence, the smallest if no size is given: tokens and residual stream share the dimensions.

    Raises `ValueError` for a size that is too small.
    """
    num_heads = len(essence.scores)
    patterns = np.vstack([essence.scores, essence.values])
    needs_query = not _is_zero(essence.scores, patterns)
    # A query is made from where CLS starts, so that must not be the origin.
    extra = int(needs_query and _is_zero(essence.seen[:, 0], essence.seen))
    least = max(_rank(patterns), _rank(essence.seen) + extra, 1)
    size = least if size is None else size
    if size < least:
        raise ValueError(f"hidden_size={size}: this model needs {least}")
    maps, differences = _factor(patterns, size)
    readers, stream = _factor(essence.seen, size)
    if extra:
        stream[-1, 0] = 1.0  # no reader looks at this dimension
    start, classifier = stream[:, 0], readers[0]
    first, *others = _attended(model)
    origin = np.zeros(size)
    if first == "CLS":  # then CLS has values as well, and what they bring home is a part of the start
        origin = start = np.linalg.solve(np.eye(size) + stream[:, 1:] @ maps[num_heads:], start)
    query = start / (start @ start) if needs_query else np.zeros(size)
    numbers = {
        "CLS": start,
        first: origin,
        **dict(zip(others, origin + differences.T, strict=True)),
        "W_Q": np.tile(query, (num_heads, 1)),
        "W_K": maps[:num_heads],
        "W_V": maps[num_heads:],
        "W_O": stream[:, 1:],
        "W_in": readers[1:],
        "W_out": np.outer(classifier, essence.written) / (classifier @ classifier or 1),
        "classifier": classifier[None],
    }
    config = replace(model.config, hidden_size=size, num_attention_heads=num_heads)
    return build({name: some.tolist() for name, some in numbers.items()}, config, torch.float64)
