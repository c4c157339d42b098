"""Checks for the exercises of the notebooks.

Each takes the reader's answer and gives a sentence: that it is right, or what is probably wrong with it.
The right answers are computed, never stored. `None` is an answer not given yet.
"""

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from toy_transformer.data import Batch
from toy_transformer.editing.hand_written import scale_query
from toy_transformer.editing.heads import keep_heads
from toy_transformer.evaluation import is_right
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.proofs.all_lengths import certify_all_lengths
from toy_transformer.proofs.horizon import Undecidable, Unfinished, horizon, shortest_wrong_string
from toy_transformer.studies.sweeps import SweepRow, outcomes
from toy_transformer.task import Tokenizer, brief
from toy_transformer.weights import build, numbers_of

OPEN = "Not answered yet: put your answer in place of None and run the cell again."


def _number(answer: Any) -> float:
    if isinstance(answer, torch.Tensor | np.ndarray) and answer.ndim == 0:
        answer = answer.item()
    if isinstance(answer, bool) or not isinstance(answer, Real):
        raise ValueError(f"expected a number, found {brief(answer)}")
    return int(answer) if isinstance(answer, Integral) else float(answer)


def _whole_number(answer: Any) -> int:
    number = _number(answer)
    if number != int(number):
        raise ValueError(f"expected a whole number, found {number}")
    return int(number)


def _text(answer: Any) -> str:
    if not isinstance(answer, str):
        raise ValueError(f"expected a string, found {brief(answer)}")
    return answer


def _all(read: Callable[[Any], Any]) -> Callable[[Any], list]:
    def read_all(answer: Any) -> list:
        if not isinstance(answer, list | tuple | torch.Tensor | np.ndarray):
            raise ValueError(f"expected a list, found {brief(answer)}")
        return [read(item) for item in answer]

    return read_all


_READERS = {
    int: _whole_number,
    float: _number,
    str: _text,
    Sequence[int]: _all(_whole_number),
    Collection[int]: lambda answer: _all(_whole_number)(list(answer) if isinstance(answer, set) else answer),
    Sequence[float]: _all(_number),
    Sequence[Sequence[float]]: _all(_all(_number)),
    Mapping[str, Sequence]: lambda numbers: numbers,  # `build` reads them
}
"""How an answer is read, by the type of a check's first parameter; what is of another type is refused."""


def _check(judge: Callable[..., str | None]) -> Callable[..., str]:
    """Turn a function that names a mistake, or gives None for a right answer, into a check."""
    read = _READERS[next(iter(signature(judge).parameters.values())).annotation]

    @wraps(judge)
    def check(answer, *context) -> str:
        if answer is None:
            return OPEN
        try:
            mistake = judge(read(answer), *context)
        except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
            mistake = f"this answer cannot be read: {error}"
        return "Right!" if mistake is None else f"Not yet: {mistake}"

    return check


@_check
def check_encoding(token_ids: Sequence[int], string: str) -> str | None:
    """Notebook 01: write a string as token ids."""
    right = Tokenizer().encode(string)
    if token_ids == right:
        return None
    if token_ids == right[1:]:
        return "every string starts with the token CLS, whose id is 0."
    if token_ids[1:] == [token - 2 for token in right[1:]]:
        return "ids 0 and 1 are taken by CLS and PAD; the letters begin with 2."
    if len(token_ids) < len(right):
        return "some tokens are missing. {2} means that the letter before it occurs twice."
    return f"an id is wrong. Decoded, your answer reads {Tokenizer().decode(token_ids)!r}."


@_check
def check_logit(logit: float, model: Transformer, string: str) -> str | None:
    """Notebook 01: compute the logit of a string from the transformed CLS."""
    trace = model.trace([string])
    transformed, embedded = trace.transformed_embeddings[0, 0], trace.embeddings[0, 0]
    classifier = model.classifier.weight[0]
    if math.isclose(logit, transformed @ classifier, abs_tol=0.02):
        return None
    if math.isclose(logit, embedded @ classifier, abs_tol=0.02):
        return "this is the logit of CLS as it was embedded. Take it as the block has transformed it."
    if math.isclose(logit, transformed.sum(), abs_tol=0.02):
        return "each of the two numbers is to be multiplied by the classifier's before they are added."
    return "multiply first number by first number and second by second, and add the two products."


@_check
def check_boundary_point(point: Sequence[float], model: Transformer) -> str | None:
    """Notebook 01: find a point, other than the origin, of which the classifier cannot decide."""
    point, classifier = torch.tensor(point, dtype=torch.float64), model.classifier.weight[0].double()
    if len(point) != 2:
        return "a point of the plane has two coordinates."
    if not 0.1 <= point.norm() <= 1e6:
        return "the origin is on the boundary, but so is a whole line: give a point on it that is not too far away."
    cosine = point @ classifier / point.norm() / classifier.norm()
    if abs(cosine) < 1e-2:  # two decimals of a point are enough
        return None
    if abs(cosine) > 0.99:
        return "this points along the classifier's arrow. The boundary is at right angles to it."
    return f"its logit is {point @ classifier:.4f}, not 0. Swap the classifier's two numbers and negate one."


@_check
def check_softmax(weights: Sequence[float], scores: Sequence[float]) -> str | None:
    """Notebook 02: turn scores into attention weights."""
    weights, scores = torch.tensor(weights, dtype=torch.float32), torch.tensor(scores)
    right = scores.softmax(dim=0)
    if weights.shape != right.shape:
        return f"{len(scores)} scores give {len(scores)} weights."
    if torch.allclose(weights, right, atol=1e-3):
        return None
    if torch.allclose(weights, scores.exp(), atol=1e-2):
        return "these are the exponentials. Divide each by their sum, so that the weights add up to 1."
    if torch.allclose(weights, scores / scores.sum(), atol=1e-3):
        return "the scores were divided by their sum without taking their exponentials first."
    if torch.allclose(weights, right.flip(0), atol=1e-3):
        return "the order is reversed: the larger score gets the larger weight."
    return "take the exponential of each score, then divide each by their sum."


@_check
def check_equal_share(count: float, model: Transformer) -> str | None:
    """Notebook 02: which count n of b in "ab{n}" gets as much of head 0's attention, together, as the one a?"""
    scores = model.trace(["ab"]).attention_scores[0, 0, 0]
    lead = (scores[1] - scores[2]).item()
    if math.isclose(count, math.exp(lead), rel_tol=0.02):
        return None
    if math.isclose(count, lead, rel_tol=0.02):
        return "this is the lead in score. A letter that occurs n times gains ln n: for which n is that the lead?"
    if math.isclose(count, 10**lead, rel_tol=0.1) or math.isclose(count, 2**lead, rel_tol=0.02):
        return "softmax takes exponentials of base e."
    return f"the lead of a over b is {lead:.2f}, and n copies of b gain ln n. Solve ln n = lead for n."


@_check
def check_same_proportions(string: str, model: Transformer, other: str) -> str | None:
    """Notebook 02: find a string of another length that has the same logit as the `other`."""
    tokenizer = model.tokenizer
    counts, other_counts = tokenizer.counts(string), tokenizer.counts(other)
    if counts == other_counts:
        return "this has the same letters the same number of times. Find one of another length."
    length, other_length = sum(counts), sum(other_counts)
    if all(n * other_length == m * length for n, m in zip(counts, other_counts, strict=True)):
        return None
    if length == other_length:
        return "it has the same length, but the letters are not in the same proportions."
    return f"its counts of a, b, c are {counts}; they should be {other_counts} times one number."


@_check
def check_wrong_string(string: str, model: Transformer, max_length: int) -> str | None:
    """Notebook 03: find a string of at most `max_length` letters that the model gets wrong."""
    counts = model.tokenizer.counts(string)
    if sum(counts) > max_length:
        return f"it has {sum(counts):,} letters; find one of at most {max_length}."
    if is_right(model, string):
        return "the model is right about it. Crowd out the single a with more b."
    return None


@_check
def check_first_failure(repeats: int, model: Transformer) -> str | None:
    """Notebook 03: from how many repeats N on is "a{N}b" wrong, to one percent?"""
    double = copy.deepcopy(model).double()
    if not 100 <= repeats <= 10**12:
        return "N is at least 100, and at most a million million."
    if is_right(double, f"a{{{repeats * 101 // 100}}}b"):
        return f"the model is still right about a{{{repeats}}}b, and about 1 % more. Go higher."
    if not is_right(double, f"a{{{repeats * 99 // 100}}}b"):
        return f"a{{{repeats}}}b is wrong, but so are strings that are more than 1 % shorter. Go lower."
    return None


@_check
def check_healing_factor(factor: float, model: Transformer, string: str) -> str | None:
    """Notebook 03: which whole factor must head 0's query be multiplied by to get a string right?"""
    if factor != int(factor) or factor < 1:
        return "a whole number of at least 1 is asked for."
    if not is_right(scale_query(model, 0, factor), string):
        return f"with {factor} times the query, {string} is still wrong. The lead of a grows with the query."
    if factor > 1 and is_right(scale_query(model, 0, factor - 1), string):
        return "this is enough, but so is a smaller number."
    return None


@_check
def check_shortest_wrong(string: str, model: Transformer) -> str | None:
    """Notebook 04: find a shortest string that the model gets wrong."""
    length = sum(model.tokenizer.counts(string))
    if is_right(model, string):
        return "the model is right about it. Look where the map is purple."
    if length > horizon(model) + 1:
        return f"it is wrong, but it has {length:,} letters, and there is a shorter wrong one."
    return None


@_check
def check_number_of_counts(number: int, length: int) -> str | None:
    """Notebook 04: which number of counts of three letters does a length have?"""
    if number == math.comb(length + 2, 2):
        return None
    if number == 3**length:
        return "this is the number of strings. Strings with the same counts, such as ab and ba, are counted once here."
    if number == math.comb(length - 1, 2):
        return "these are the counts in which every letter occurs. Some may be missing."
    if number == math.comb(length + 3, 3) - 1:
        return "these are the counts of all lengths up to this one."
    return f"with n_a letters a there may be 0 to {length:,} − n_a letters b, and the rest is c. Add up over all n_a."


@_check
def check_scaled_horizon(head_and_factor: Sequence[float], model: Transformer, length: int) -> str | None:
    """Notebook 04: `head_and_factor`, at most 10, for a query with which every string of some length is right."""
    head, factor = head_and_factor
    if head not in range(model.config.num_attention_heads) or not 0 < factor <= 10:
        raise ValueError("expected a head, 0 or 1, and a factor of at most 10, such as (0, 1.5)")
    wrong = shortest_wrong_string(scale_query(model, int(head), factor), length)
    if wrong:
        return f"with this, {wrong.string} of {wrong.length:,} letters is wrong. Try the other head, too."
    return None


@_check
def check_first_scaled_length(length: int, length_scaling: float) -> str | None:
    """Notebook 05: the length of the shortest strings whose scores κ, the `length_scaling`, makes larger."""
    first = math.floor(math.exp(1 / length_scaling)) + 1
    if length == first:
        return None
    if length == first - 1:
        return f"κ ln n is {length_scaling * math.log(length):.4f} there, not yet more than 1."
    return f"for which n is {length_scaling:g} · ln n more than 1? Solve for n, and take the next whole number."


@_check
def check_least_scaling(length_scaling: float, model: Transformer) -> str | None:
    """Notebook 05: the least κ, a `length_scaling`, at which the proof's exponents are above 1, to two percent."""
    large = 10.0
    limits = certify_all_lengths(model.with_length_scaling(large)).limits
    least_lead = min(float(exponent.mid()) / large for limit in limits for _, exponent in limit.terms)
    if math.isclose(length_scaling * least_lead, 1, rel_tol=0.02):
        return None
    if length_scaling * least_lead < 1:
        return f"κ times the least lead is {length_scaling * least_lead:.3f} then, which is not above 1."
    return f"this is enough, but so is less: κ times the least lead is {length_scaling * least_lead:.3f} then."


@_check
def check_hand_written(numbers: Mapping[str, Sequence], length: int) -> str | None:
    """Notebook 05: write 36 numbers that are right about every string of at most this length."""
    try:
        wrong = shortest_wrong_string(build(numbers))
    except (Undecidable, Unfinished) as error:
        return f"{error}. Leave a margin: where a letter is missing, let the logit be well below 0."
    if wrong is None or wrong.length > length:
        return None
    should = "positive" if wrong.label else "negative"
    return (
        f"it is right up to {wrong.length - 1:,} letters, and {length:,} are to beat. The logit of {wrong.string} is "
        f"{wrong.logit:.3g} and should be {should}."
    )


@_check
def check_one_letter_logit(logit: float, positives: int, negatives: int) -> str | None:
    """Notebook 06: the best logit for strings of which so many are positive and so many negative."""
    if math.isclose(logit, math.log(positives / negatives), abs_tol=0.01):
        return None
    if math.isclose(logit, positives / (positives + negatives), abs_tol=0.01):
        return "this is the probability. The logit is the logarithm of the odds, p / (1 − p)."
    if math.isclose(logit, positives / negatives, abs_tol=0.01):
        return "these are the odds. The logit is their natural logarithm."
    return "the probability p should be the share of positives; the logit is ln(p / (1 − p))."


@_check
def check_all_of_eight(share: float) -> str | None:
    """Notebook 06: the share of clean seeds at which eight of eight clean ones have a probability of one half."""
    if math.isclose(share**8, 0.5, rel_tol=0.05):
        return None
    if not 0 < share < 1:
        return "a share is a number between 0 and 1."
    return f"with a share of {share:.3g}, eight of eight are clean with probability {share**8:.2g}, not 0.5."


@_check
def check_one_letter_seed(seed: int, rows: Sequence[SweepRow]) -> str | None:
    """Notebook 06: find a seed of a sweep whose model looks for one letter only."""
    found = [row for row in rows if row.seed == seed]
    if not found:
        return f"the sweep has seeds {rows[0].seed} to {rows[-1].seed}."
    if not outcomes(found)["at 0"].count:
        return f"seed {seed} is right up to {found[0].horizon} letters; look for one that is wrong about a single one."
    return None


@_check
def check_num_numbers(number: int, config: ModelConfig) -> str | None:
    """Notebook 07: how many numbers does a model of these sizes have?"""
    right = sum(weight.numel() for weight in Transformer(config).parameters())
    if number == right:
        return None
    if right - number in (config.hidden_size, 2 * config.hidden_size):
        return "CLS and PAD have embeddings, too."
    return "5 embeddings, W_Q, W_K and W_V with a row for each head, W_O with a column, W_in, W_out, the classifier."


@_check
def check_changed_number(numbers: Mapping[str, Sequence], others: Mapping[str, Sequence], length: int) -> str | None:
    """Notebook 07: `numbers` that are the `others` but for one, and right about every string up to a length."""
    model = build(numbers)
    answer, before = numbers_of(model), numbers_of(build(others))
    changed = sum(np.sum(np.not_equal(answer[name], before[name])) for name in before)
    if changed != 1:
        return f"change one number: here {changed} differ."
    wrong = shortest_wrong_string(model, length)
    return None if wrong is None else f"with this number, {wrong.string} of {wrong.length:,} letters is wrong."


@_check
def check_kept_heads(heads: Collection[int], model: Transformer, strings: Batch, length: int) -> str | None:
    """Notebook 07: two heads that, alone, keep the model right about every string up to a length."""
    num_heads = model.config.num_attention_heads
    if len(heads) != 2 or len(set(heads)) != 2 or not set(heads) <= set(range(num_heads)):
        raise ValueError(f"expected two different heads from 0 to {num_heads - 1}, such as (0, 1)")
    wrong = shortest_wrong_string(keep_heads(model, heads, strings), length)
    return None if wrong is None else f"with these two alone, {wrong.string} of {wrong.length:,} letters is wrong."


@_check
def check_score(score: float, model: Transformer, head: int, query: str, key: str) -> str | None:
    """Notebook 08: the score, in one head, of the query of one letter with the key of another."""
    trace = model.trace([model.tokenizer.letters])
    asking, asked = (1 + model.tokenizer.letters.index(letter) for letter in (query, key))
    scores = trace.Q[0, head] @ trace.K[0, head].mT
    if math.isclose(score, scores[asking, asked], abs_tol=0.05):
        return None
    if math.isclose(score, scores[asked, asking], abs_tol=0.02):
        return f"this is the query of {key} with the key of {query}. The two are different questions."
    if math.isclose(score, trace.embeddings[0, asking] @ trace.embeddings[0, asked], abs_tol=0.02):
        return "these are the embeddings as they are. Send the one through w_q and the other through w_k first."
    return f"multiply the query of {query} by the key of {key}; each is one number."


@_check
def check_scores_shape(shape: Sequence[int], n: int, d_k: int) -> str | None:
    """Notebook 08: the shape of (X W_Q)(X W_K)ᵀ, where `n` tokens are rows, and keys have `d_k` numbers."""
    if shape == [n, n]:
        return None
    return f"the first factor, X W_Q, has the shape ({n}, {d_k}), and the second, (X W_K)ᵀ, has ({d_k}, {n})."


@_check
def check_admirer(tokens: Sequence[Sequence[float]]) -> str | None:
    """Notebook 08: two tokens of which the first likes the other best, without matrices."""
    x = torch.tensor(tokens, dtype=torch.float64)
    if x.shape != (2, 2):
        return f"two rows of two numbers are asked for; these have the shape {tuple(x.shape)}."
    itself, other = (x[0] @ x.T).tolist()
    if other > itself:
        return None
    return f"the first token's score with itself is {itself:g}, with the other one {other:g}. Make it longer."
