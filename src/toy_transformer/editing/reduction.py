"""Smaller models: without what a model never needed, and without some of its heads."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from toy_transformer.data import from_counts
from toy_transformer.model import Transformer
from toy_transformer.proofs.bounds import Bounds
from toy_transformer.proofs.logit import Logit, logit_of
from toy_transformer.weights import build

RANK_TOLERANCE = 1e-9
"""Singular values below this share of the largest are rounding: weights are float32, arithmetic is float64."""

SAME = 1e-8
"""How far a logit may be off after exact reduction, in parts of the terms that it is the sum of."""


def reduce_exactly(model: Transformer) -> Transformer:
    """Give a model of the least hidden size, and with fewer heads where that is plain, that is the same function.

    Heads whose means do not depend on the string are folded into where CLS starts; of heads with the same scores
    and with values in proportion one stays. The rest is a change of basis onto what is used. What is smaller than the
    largest number of its kind by `RANK_TOLERANCE` counts as nothing. The result is in float64. Raises `ValueError`
    for a model with norm, with heads of more than one number, or with dropout; and `ArithmeticError` where the result
    is not the same function after all, for numbers of too different magnitudes.
    """
    reduced = _build(_merge_heads(_normalized(_relative(reducible_logit(model)))), model)
    counts = _random_counts(len(model.tokenizer.letters))
    with torch.no_grad():
        logits = [m(*counts, num_queries=1).output_logits for m in (copy.deepcopy(model).double(), reduced)]
    difference = (logits[1] - logits[0]).abs().max().item()
    if not difference <= SAME * Bounds(model).magnitude:
        raise ArithmeticError(f"a logit of the reduced model is {difference:.1g} off")
    return reduced


def squeeze(model: Transformer, hidden_size: int) -> Transformer:
    """Give the nearest model of a hidden size: of the `readings` of one of each letter of a set, the least is left out.

    Their truncated singular value decomposition, over all sets, is the best approximation (Eckart and Young 1936). Its
    axes, turned towards larger logits, are those of the new CLS. A head's arrow of W_Q has length 1, and its largest
    value the size 1. In float64. Raises `ValueError` as `reduce_exactly` does, and where the tokens need more
    dimensions to have their scores and values.
    """
    logit, letters = reducible_logit(model), model.tokenizer.letters
    sets = ["".join(chosen) for size in range(len(letters)) for chosen in combinations(letters, size + 1)]
    axes = np.linalg.svd(readings(model, sets), full_matrices=False).Vh[:hidden_size]
    axes = np.where(axes[:, :1] < 0, -axes, axes)
    return _build(_with_matrix(logit, axes.T @ axes @ _matrix(logit)), model, hidden_size, axes)


def readers_of(model: Transformer) -> Float[Tensor, "reader hidden_size"]:
    """The vectors that CLS is multiplied with after attention: the classifier (row 0), and the rows of W_in."""
    return torch.vstack([model.classifier.weight, model.self_attention_block.W_in.weight]).detach()


def readings(model: Transformer, strings: Sequence[str]) -> Float[np.ndarray, "string reader"]:
    """Say what each of the `readers_of` a model reads of CLS after attention, for each of the `strings`.

    In float64. Raises `ValueError` for a string that the tokenizer refuses.
    """
    return (model.trace(strings).cls_path[:, 1] @ readers_of(model).T).detach().double().numpy()


def reducible_logit(model: Transformer) -> Logit:
    """Give the logit; raises `ValueError` for a model with norm, heads of more than one number, or dropout."""
    config = model.config
    if config.norm is not None or config.attention_head_size != 1 or config.dropout:
        raise ValueError(f"{config}: only models without norm and dropout, with heads of size 1, can be made smaller")
    return logit_of(model)


def without_heads(model: Transformer, results: Mapping[int, float]) -> Transformer:
    """Give a model of the least hidden size in which some heads are silent, and gone.

    `results` says, for each of these, which constant stands in for its result. In float64. Raises `ValueError` as
    `reduce_exactly` does, and for a head that the model does not have.
    """
    num_heads = model.config.num_attention_heads
    if unknown := set(results) - set(range(num_heads)):
        raise ValueError(f"heads {sorted(unknown)}: the model has the heads 0 to {num_heads - 1}")
    logit = reducible_logit(model)
    for head, mean in results.items():
        logit = replace(logit, c=logit.c + logit.o[head] * mean, b=logit.b + logit.F[:, head] * mean)
    kept = [head for head in range(num_heads) if head not in results]
    return _build(_keep(logit, kept, _matrix(logit)[:, 1:].T[kept]), model)


def _relative(logit: Logit) -> Logit:
    """Write the same function with scores and values as differences to those of the first token.

    Softmax takes no notice of a constant added to all scores of a head, and a constant in its values is a constant
    in its mean.
    """
    first = logit.values[:, 0, 0]
    return replace(
        logit,
        c=logit.c + logit.o @ first,
        b=logit.b + logit.F @ first,
        scores=logit.scores - logit.scores[:, :1],
        values=logit.values - logit.values[:, :1],
    )


def _normalized(logit: Logit) -> Logit:
    """Write the same function with 1 for the size of each head's largest value, and its output as much larger."""
    sizes = abs(logit.values).max(axis=(1, 2))
    sizes[sizes == 0] = 1
    return replace(logit, values=logit.values / sizes[:, None, None], o=logit.o * sizes, F=logit.F * sizes)


def _random_counts(num_letters: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Strings of up to millions of letters, some without one of them, as a model takes them."""
    generator = torch.Generator().manual_seed(0)
    counts = (10 ** (6 * torch.rand(100, num_letters, generator=generator))).round()
    counts *= torch.rand(counts.shape, generator=generator) < 0.8
    return from_counts(counts[counts.any(dim=1)], torch.float64)


def _matrix(logit: Logit) -> Float[np.ndarray, "reader start_and_heads"]:
    """What the classifier (row 0) and the units read of where CLS starts (column 0), and of each head's mean."""
    return np.block([[logit.c, logit.o], [logit.b[:, None], logit.F]])


def _with_matrix(logit: Logit, matrix: Float[np.ndarray, "reader start_and_heads"]) -> Logit:
    return replace(logit, c=matrix[0, 0], o=matrix[0, 1:], b=matrix[1:, 0], F=matrix[1:, 1:])


def _attended(model: Transformer) -> list[str]:
    return ["CLS"] * model.config.attend_cls + list(model.tokenizer.letters)


def _merge_heads(logit: Logit) -> Logit:
    """Leave out heads without an effect, and merge those that always look at the same and see the same."""
    matrix, values = _matrix(logit), logit.values[..., 0]
    kept, columns = [], []
    for head, column in enumerate(matrix[:, 1:].T):
        if _is_zero(values[head], values):
            continue
        twin = next((i for i, other in enumerate(kept) if _are_twins(logit, other, head)), None)
        if twin is None:
            kept.append(head)
            columns.append(column)
        else:
            other = values[kept[twin]]
            columns[twin] = columns[twin] + (values[head] @ other) / (other @ other) * column
    places = [i for i, column in enumerate(columns) if not _is_zero(column, matrix)]  # twins may cancel
    return _keep(logit, [kept[i] for i in places], [columns[i] for i in places])


def _keep(logit: Logit, heads: list[int], columns: Iterable[Float[np.ndarray, "reader"]]) -> Logit:
    """Leave some of the heads, with what is read of each."""
    matrix = _matrix(logit)
    if not heads:  # a model has at least one
        heads, columns = [0], [np.zeros(len(matrix))]
    kept = replace(logit, scores=logit.scores[heads], values=logit.values[heads])
    return _with_matrix(kept, np.column_stack([matrix[:, 0], *columns]))


def _are_twins(logit: Logit, head: int, other: int) -> bool:
    same = _is_zero(logit.scores[head] - logit.scores[other], logit.scores)
    return same and _rank(logit.values[[head, other], :, 0]) < 2


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


def _one_place_each(patterns: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Write a matrix as a product with the first of `size` unit vectors."""
    num_columns = patterns.shape[1]
    return np.pad(patterns, [(0, 0), (0, size - num_columns)]), np.eye(size, num_columns)


def _build(
    logit: Logit, model: Transformer, size: int | None = None, axes: Float[np.ndarray, "axis reader"] | None = None
) -> Transformer:
    """Make a model with a logit, the smallest if no size is given: tokens and residual stream share the dimensions.

    Each head's arrow of W_Q has length 1, and its largest value the size 1. `axes` are those of the residual stream: if
    not given, one for each reader, where all are needed. Raises `ValueError` for a size that is too small.
    """
    logit = _normalized(_relative(logit))
    matrix, scores, values = _matrix(logit), logit.scores[:, 1:], logit.values[:, 1:, 0]
    num_heads, patterns = len(scores), np.vstack([scores, values])
    needs_query = not _is_zero(scores, patterns)
    # A query is made from where CLS starts, so that must not be the origin.
    extra = int(needs_query and _is_zero(matrix[:, 0], matrix))
    least = max(_rank(patterns), _rank(matrix) + extra, 1)
    size = least if size is None else size
    if size < least:
        raise ValueError(f"hidden_size={size}: this model needs {least}")
    first, *others = _attended(model)
    if axes is None and _rank(matrix) == len(matrix):
        axes = np.eye(len(matrix))
    maps, differences = _factor(patterns, size) if size < len(others) else _one_place_each(patterns, size)
    if axes is None:
        readers, stream = _factor(matrix, size)
    else:
        readers = np.pad(axes.T, [(0, 0), (0, size - len(axes))])
        stream = readers.T @ matrix
    if extra:
        stream[-1, 0] = 1.0  # no reader looks at this dimension
    start, classifier = stream[:, 0], readers[0]
    origin = np.zeros(size)
    if first == "CLS":  # then CLS has values as well, and what they bring home is a part of the start
        origin = start = np.linalg.solve(np.eye(size) + stream[:, 1:] @ maps[num_heads:], start)
    length = np.linalg.norm(start) or 1.0
    numbers = {
        "CLS": start,
        first: origin,
        **dict(zip(others, origin + differences.T, strict=True)),
        "W_Q": np.tile(start / length, (num_heads, 1)),
        "W_K": maps[:num_heads] / length,
        "W_V": maps[num_heads:],
        "W_O": stream[:, 1:],
        "W_in": readers[1:],
        "W_out": np.outer(classifier, logit.u) / (classifier @ classifier or 1),
        "classifier": classifier[None],
    }
    config = replace(model.config, hidden_size=size, num_attention_heads=num_heads)
    return build({name: array.tolist() for name, array in numbers.items()}, config, torch.float64)
