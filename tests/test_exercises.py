"""Every check takes a right answer and refuses wrong ones, and says what is probably wrong with them."""

import math

import pytest
import torch

from toy_transformer import exercises
from toy_transformer.data import Batch
from toy_transformer.editing.hand_written import EXACT, scale_query
from toy_transformer.model import ModelConfig, Transformer
from toy_transformer.studies.sweeps import SweepRow
from toy_transformer.weights import build, numbers_of

OTHER_LENGTH = "abcc"
SCORES = [0.0, math.log(3)]
ROWS = [
    SweepRow(2, 6, 691, 2, 20, 1.8, [("a", 4.4), ("b", 5.0)], 66),
    SweepRow(3, 1443, 0, 30, 30, 337.8, [("b", 6.1), ("b", 7.0)], 0),
]
BY_HAND = EXACT | {
    "CLS": [-0.75, -0.75],
    "W_Q": [[-100, 0], [0, -100]],
    "W_K": [[1, 0], [0, 1]],
    "W_in": [[0, 0], [0, 0]],
    "classifier": [[1, 1]],
}
WEAK = BY_HAND | {"W_Q": [[-10, 0], [0, -100]]}
LARGE = ModelConfig(hidden_size=3, num_attention_heads=4)
STRINGS = Batch(torch.tensor([[1, 0, 2], [2, 1, 0], [0, 3, 1], [1, 1, 4]]), torch.tensor([0, 1, 0, 1]))

RIGHT = [
    ("check_encoding", [0, 4, 2, 3, 3], ("cab{2}",)),
    ("check_logit", -10.5034, ("good", "bc")),
    ("check_boundary_point", (1.17266, -1.11834), ("good",)),
    ("check_boundary_point", (-1.17, 1.12), ("good",)),
    ("check_softmax", [0.25, 0.75], (SCORES,)),
    ("check_equal_share", 110_636, ("good",)),
    ("check_same_proportions", "aabbcccc", ("good", OTHER_LENGTH)),
    ("check_same_proportions", "b{50}a{50}c{100}", ("good", OTHER_LENGTH)),
    ("check_wrong_string", "ab{68}", ("bad", 70)),
    ("check_first_failure", 801_781, ("good",)),
    ("check_healing_factor", 2, ("bad", "ab{100}")),
    ("check_one_letter_logit", math.log(4), (36, 9)),
    ("check_all_of_eight", 0.917, ()),
    ("check_one_letter_seed", 3, (ROWS,)),
    ("check_shortest_wrong", "ab{66}", ("bad",)),
    ("check_number_of_counts", 20_301, (200,)),
    ("check_scaled_horizon", (1, 1.5), ("good", 5000)),
    ("check_first_scaled_length", 8, (0.5,)),
    ("check_first_scaled_length", 3, (1.0,)),
    ("check_least_scaling", 0.229, ("good",)),
    ("check_hand_written", BY_HAND, (2166,)),
    ("check_score", 13.223, ("good", 0, "b", "a")),
    ("check_scores_shape", (7, 7), (7, 2)),
    ("check_admirer", [[1, 0], [2, 0]], ()),
    ("check_num_numbers", 78, (LARGE,)),
    ("check_changed_number", BY_HAND, (WEAK, 10**9)),
    ("check_kept_heads", (1, 0), ("three heads", STRINGS, 2000)),
    ("check_kept_heads", {0, 1}, ("three heads", STRINGS, 2000)),
    ("check_kept_heads", torch.tensor([0, 1]), ("three heads", STRINGS, 2000)),
]

WRONG = [
    ("check_encoding", [4, 2, 3, 3], ("cab{2}",), "starts with the token CLS"),
    ("check_encoding", [0, 2, 0, 1, 1], ("cab{2}",), "the letters begin with 2"),
    ("check_encoding", [0, 4, 2, 3], ("cab{2}",), "some tokens are missing"),
    ("check_encoding", [0, 4, 2, 3, 2], ("cab{2}",), "Decoded, your answer reads 'caba'"),
    ("check_encoding", [0, 4, 2, 3, 3, 3], ("cab{2}",), "Decoded, your answer reads 'cabbb'"),
    ("check_encoding", 5, ("cab{2}",), "cannot be read"),
    ("check_logit", -1.8988, ("good", "bc"), "as it was embedded"),
    ("check_logit", "sum", ("good", "bc"), "each of the two numbers is to be multiplied"),
    ("check_logit", 10.5034, ("good", "bc"), "add the two products"),
    ("check_boundary_point", (0, 0), ("good",), "on it that is not too far away"),
    ("check_boundary_point", (1.11834, 1.17266), ("good",), "points along the classifier's arrow"),
    ("check_boundary_point", (1, 0), ("good",), "its logit is 1.1183"),
    ("check_boundary_point", (1, 2, 3), ("good",), "two coordinates"),
    ("check_softmax", [1, 3], (SCORES,), "these are the exponentials"),
    ("check_softmax", [0, 1], (SCORES,), "without taking their exponentials"),
    ("check_softmax", [0.75, 0.25], (SCORES,), "the order is reversed"),
    ("check_softmax", [0.5, 0.5], (SCORES,), "take the exponential of each score"),
    ("check_softmax", [1], (SCORES,), "2 scores give 2 weights"),
    ("check_equal_share", 11.614, ("good",), "this is the lead in score"),
    ("check_equal_share", 2**11.614, ("good",), "base e"),
    ("check_equal_share", 1000, ("good",), "Solve ln n = lead"),
    ("check_same_proportions", "ccab", ("good", OTHER_LENGTH), "Find one of another length"),
    ("check_same_proportions", "aabb", ("good", OTHER_LENGTH), "not in the same proportions"),
    ("check_same_proportions", "abc", ("good", OTHER_LENGTH), "its counts of a, b, c are"),
    ("check_same_proportions", "abd", ("good", OTHER_LENGTH), "cannot be read: 'abd', position 2"),
    ("check_wrong_string", "ab", ("bad", 70), "the model is right about it"),
    ("check_wrong_string", "ab{100}", ("bad", 70), "it has 101 letters"),
    ("check_first_failure", 100_000, ("good",), "Go higher"),
    ("check_first_failure", 2_000_000, ("good",), "Go lower"),
    ("check_first_failure", 0, ("good",), "at least 100"),
    ("check_first_failure", 10**18, ("good",), "at most a million million"),
    ("check_boundary_point", (1e30, 1e30), ("good",), "not too far away"),
    ("check_boundary_point", (math.nan, 1), ("good",), "not too far away"),
    ("check_encoding", [[0, 4, 2, 3, 3]], ("cab{2}",), "cannot be read"),
    ("check_same_proportions", "bbac", ("good", OTHER_LENGTH), "not in the same proportions"),
    ("check_first_failure", math.inf, ("good",), "cannot be read"),
    ("check_healing_factor", 1, ("bad", "ab{100}"), "is still wrong"),
    ("check_healing_factor", 3, ("bad", "ab{100}"), "so is a smaller number"),
    ("check_healing_factor", 1.5, ("bad", "ab{100}"), "a whole number"),
    ("check_one_letter_logit", 0.8, (36, 9), "this is the probability"),
    ("check_one_letter_logit", 4.0, (36, 9), "these are the odds"),
    ("check_one_letter_logit", 0.0, (36, 9), "the share of positives"),
    ("check_all_of_eight", 0.9, (), "with probability 0.43"),
    ("check_all_of_eight", 1.5, (), "between 0 and 1"),
    ("check_one_letter_seed", 2, (ROWS,), "seed 2 is right up to 66 letters"),
    ("check_one_letter_seed", 9, (ROWS,), "the sweep has seeds 2 to 3"),
    ("check_shortest_wrong", "ab{65}", ("bad",), "the model is right about it"),
    ("check_shortest_wrong", "ab{67}", ("bad",), "it has 68 letters, and there is a shorter wrong one"),
    ("check_number_of_counts", 3**9, (9,), "this is the number of strings"),
    ("check_number_of_counts", 28, (9,), "in which every letter occurs"),
    ("check_number_of_counts", 219, (9,), "of all lengths up to this one"),
    ("check_number_of_counts", 5, (9,), "Add up over all n_a"),
    ("check_scaled_horizon", (0, 10), ("good", 5000), "abc{3014} of 3,016 letters is wrong"),
    ("check_scaled_horizon", (2, 1), ("good", 5000), "expected a head, 0 or 1"),
    ("check_scaled_horizon", (1, 11), ("good", 5000), "a factor of at most 10"),
    ("check_first_scaled_length", 7, (0.5,), "0.9730 there, not yet more than 1"),
    ("check_first_scaled_length", 20, (0.5,), "for which n is 0.5 · ln n more than 1"),
    ("check_least_scaling", 0.2, ("good",), "which is not above 1"),
    ("check_least_scaling", 0.5, ("good",), "so is less"),
    ("check_score", 7.088, ("good", 0, "b", "a"), "the query of a with the key of b"),
    ("check_score", -5.278, ("good", 0, "b", "a"), "the embeddings as they are"),
    ("check_score", 0.0, ("good", 0, "b", "a"), "multiply the query of b by the key of a"),
    ("check_scores_shape", (2, 2), (7, 2), "has the shape (7, 2)"),
    ("check_admirer", [[1, 0], [0, 5]], (), "with itself is 1, with the other one 0"),
    ("check_admirer", [1, 2], (), "expected a list"),
    ("check_admirer", [[1, 2]], (), "these have the shape (1, 2)"),
    ("check_hand_written", EXACT, (2166,), "Leave a margin"),
    ("check_hand_written", BY_HAND | {"W_Q": [[-5, 0], [0, -5]]}, (2166,), "The logit of abc{"),
    ("check_hand_written", BY_HAND | {"W_Q": [0]}, (2166,), "expected finite numbers of shape (2, 2)"),
    ("check_num_numbers", 72, (LARGE,), "CLS and PAD have embeddings, too"),
    ("check_num_numbers", 75, (LARGE,), "CLS and PAD have embeddings, too"),
    ("check_num_numbers", 70, (LARGE,), "W_O with a column"),
    ("check_changed_number", WEAK, (WEAK, 100), "change one number: here 0 differ"),
    ("check_changed_number", BY_HAND | {"b": [1, 1]}, (WEAK, 100), "change one number: here 2 differ"),
    ("check_changed_number", BY_HAND | {"W_Q": [[-11, 0], [0, -100]]}, (WEAK, 10**9), "letters is wrong"),
    ("check_changed_number", BY_HAND | {"W_Q": [0]}, (WEAK, 10**9), "expected finite numbers of shape (2, 2)"),
    ("check_kept_heads", (0, 2), ("three heads", STRINGS, 2000), "is wrong"),
    ("check_kept_heads", (0, 0), ("three heads", STRINGS, 2000), "expected two different heads from 0 to 2"),
    ("check_kept_heads", (0, 3), ("three heads", STRINGS, 2000), "expected two different heads from 0 to 2"),
    ("check_kept_heads", (0, 1), ("three heads", STRINGS, 3000), "abc{2165} of 2,167 letters is wrong"),
]

TOLERANCES = [
    ("check_logit", -10.5034, 0.02, ("good", "bc")),
    ("check_equal_share", 110_636, 0.02 * 110_636, ("good",)),
    ("check_first_failure", 801_781, 0.01 * 801_781, ("good",)),
    ("check_one_letter_logit", math.log(4), 0.01, (36, 9)),
    ("check_all_of_eight", 0.5 ** (1 / 8), 0.5 ** (1 / 8) * 0.05 / 8, ()),
    ("check_least_scaling", 0.229, 0.02 * 0.229, ("good",)),
    ("check_score", 13.223, 0.05, ("good", 0, "b", "a")),
]
"""How far an answer may be off."""


class EqualToAll:
    """An object that merely compares equal."""

    def __eq__(self, other) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _with_an_idle_head(model: Transformer) -> Transformer:
    """The same function, with a third head that writes nothing."""
    numbers = numbers_of(model)
    idle = {name: numbers[name] + [[1.0, -1.0]] for name in ("W_Q", "W_K", "W_V")}
    idle["W_O"] = [[*row, 0.0] for row in numbers["W_O"]]
    return build(numbers | idle, ModelConfig(num_attention_heads=3))


@pytest.fixture
def context(request, walkthrough, generalization_errors):
    models = {"good": walkthrough.model, "bad": generalization_errors.model}
    models["three heads"] = _with_an_idle_head(walkthrough.model)
    return lambda names: [models.get(name, name) if isinstance(name, str) else name for name in names]


@pytest.mark.parametrize(("check", "answer", "names"), RIGHT)
def test_right_answers(check, answer, names, context):
    assert getattr(exercises, check)(answer, *context(names)) == "Right!"


@pytest.mark.parametrize(("check", "answer", "names", "mistake"), WRONG)
def test_wrong_answers(check, answer, names, mistake, context):
    arguments = context(names)
    if answer == "sum":
        answer = arguments[0].trace(["bc"]).transformed_embeddings[0, 0].sum()
    message = getattr(exercises, check)(answer, *arguments)
    assert message.startswith("Not yet: ") and mistake in message


@pytest.mark.parametrize(("check", "answer", "tolerance", "names"), TOLERANCES)
def test_tolerances(check, answer, tolerance, names, context):
    kind = int if isinstance(answer, int) else float
    for part in (-2, -0.6, 0.6, 2):
        message = getattr(exercises, check)(kind(answer + part * tolerance), *context(names))
        assert (message == "Right!") == (abs(part) < 1), (part, message)


@pytest.mark.parametrize(("off", "is_right"), [(0.0006, True), (-0.0006, True), (0.002, False), (-0.002, False)])
def test_tolerance_of_attention_weights(off, is_right):
    assert (exercises.check_softmax([0.25 + off, 0.75 - off], SCORES) == "Right!") == is_right


@pytest.mark.parametrize(("angle", "is_right"), [(0.006, True), (-0.006, True), (0.02, False), (-0.02, False)])
def test_tolerance_of_a_point_of_the_boundary(walkthrough, angle, is_right):
    x, y = walkthrough.model.classifier.weight[0].tolist()
    point = [-y - angle * x, x - angle * y]
    assert (exercises.check_boundary_point(point, walkthrough.model) == "Right!") == is_right


@pytest.mark.parametrize(("check", "answer", "names"), RIGHT)
def test_junk_is_refused(check, answer, names, context):
    """What only compares equal, or is another kind of container than a list."""
    junk = [
        EqualToAll(),
        True,
        b"",
        {},
        set(),
        [EqualToAll()] * 2,
        [True, True],
        [[True] * 2] * 2,
        [["1"]],
        "",
        [{}],
        1j,
    ]
    if not isinstance(answer, str | dict):
        junk += [str(answer), {answer} if isinstance(answer, float | int) else dict.fromkeys(map(str, answer))]
    for thing in junk:
        message = getattr(exercises, check)(thing, *context(names))
        assert message.startswith("Not yet: this answer cannot be read"), (thing, message)


def test_every_check_is_tested_and_waits_for_an_answer():
    checks = {name for name in vars(exercises) if name.startswith("check_")}
    assert checks == {name for name, *_ in RIGHT} == {name for name, *_ in WRONG}
    assert all(getattr(exercises, name)(None) == exercises.OPEN for name in checks)


def test_healing_moves_the_failure(generalization_errors):
    """What notebook 03 says of the model whose query in head 0 is doubled."""
    healed = scale_query(generalization_errors.model, 0, 2)
    logits = healed.trace(["b{2}c{152}", "ab{100}", "ab{100000}"]).output_logits
    assert (logits > 0).tolist() == [False, True, False]
