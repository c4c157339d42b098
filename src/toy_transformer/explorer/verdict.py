"""The verdict in sentences: the answer for a string, and how far a model is right about all strings."""

from toy_transformer.model import Transformer
from toy_transformer.proofs.all_lengths import NotCertified, certify_all_lengths
from toy_transformer.proofs.horizon import SEARCHED_LENGTH, Undecidable, Unfinished, shortest_wrong_string
from toy_transformer.task import contains_all


def sentence(string: str, logit: float, required: str = "ab") -> str:
    """Say what the answer for a string is, by its `logit`, and whether it is right where `required` letters count."""
    answer, right = ("yes" if logit > 0 else "no"), (logit > 0) == contains_all(string, required)
    return f"{string}: logit {logit:.2f}, {answer}, {'right' if right else 'wrong'}."


def sentence_on_horizon(model: Transformer, max_boxes: int = 2000) -> str:
    """Say how far a model is right about every string; after `max_boxes` sets of strings, how far that is known."""
    try:
        wrong = shortest_wrong_string(model, max_boxes=max_boxes)
    except Unfinished as stopped:
        return f"{_right_up_to(stopped.right_up_to)}; the search was stopped there, for many logits are near 0."
    except Undecidable as error:
        return f"Not decided: {error}."
    if wrong is None:
        return _sentence_on_all(model, max_boxes)
    if wrong.length == 1:
        return f"Wrong about a string of one letter: {wrong.string}."
    return f"{_right_up_to(wrong.length - 1)}; the shortest wrong one is {wrong.string}."


def _right_up_to(length: int) -> str:
    return f"Right about every string up to {length:,} letter{'s' * (length != 1)}"


def _sentence_on_all(model: Transformer, max_boxes: int) -> str:
    try:
        proof = certify_all_lengths(model, max_boxes)
    except (NotCertified, ValueError, Undecidable, Unfinished):
        return f"{_right_up_to(SEARCHED_LENGTH)}; longer ones were not searched."
    by_bound = f"proved from {proof.from_length:,} letters on"
    return f"Right about every string of every length: {by_bound}, below by certificate."
