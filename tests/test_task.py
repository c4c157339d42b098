import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toy_transformer.task import MAX_LENGTH, MAX_SPANS, MAX_TOKENS, Task, Tokenizer, contains_all

TOKENIZER = Tokenizer()
STRINGS = st.text("abc", min_size=1, max_size=30)
COUNTS = st.tuples(*[st.integers(0, 10**17)] * 3).filter(any)


def test_published_token_ids(published):
    facts = published["tokenizer"]
    assert {name: TOKENIZER.vocabulary.index(name) for name in facts["ids"]} == facts["ids"]
    assert TOKENIZER.encode_batch(["aac", "baac"]) == [facts["aac"], facts["baac"]]


@given(STRINGS)
def test_decode_undoes_encode(string):
    assert TOKENIZER.decode(TOKENIZER.encode(string)) == string


@given(st.lists(STRINGS, min_size=1, max_size=5))
def test_padding_is_decoded_away(strings):
    rows = TOKENIZER.encode_batch(strings)
    assert len({len(row) for row in rows}) == 1
    assert [TOKENIZER.decode(torch.tensor(row)) for row in rows] == strings


@given(COUNTS)
def test_counts_undo_short_form(counts):
    assert TOKENIZER.counts(TOKENIZER.short_form(counts)) == counts


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 20)), min_size=1, max_size=8))
def test_notation_means_the_written_out_string(spans):
    notation = "".join(f"{letter}{{{count}}}" for letter, count in spans)
    written_out = "".join(letter * count for letter, count in spans)
    assert TOKENIZER.encode(notation) == TOKENIZER.encode(written_out)
    assert TOKENIZER.counts(notation) == tuple(written_out.count(letter) for letter in "abc")
    assert TOKENIZER.parse(notation) == spans


@given(STRINGS, st.sampled_from(["a", "b", "ab", "abc", "c"]))
def test_the_question_is_the_same_in_short_form(string, required):
    expected = all(string.count(letter) > 0 for letter in required)
    assert contains_all(string, required) == expected
    assert contains_all(TOKENIZER.short_form(TOKENIZER.counts(string)), required) == expected


@given(st.text("abcd{}0123456789-² x", max_size=12))
def test_a_string_is_read_or_refused_with_one_error(text):
    try:
        counts = TOKENIZER.counts(text)
    except ValueError as error:
        assert "position" in str(error) and "expected" in str(error) and "found" in str(error)
    else:
        assert sum(counts) >= 1


def test_short_form_is_canonical():
    assert TOKENIZER.short_form((2, 1, 30)) == "a{2}bc{30}"
    assert TOKENIZER.short_form(TOKENIZER.counts("cab{1}a")) == "a{2}bc"


@pytest.mark.parametrize(
    ("string", "position", "expected", "found"),
    [
        ("", 0, "one of the letters a, b, c", "the end"),
        ("abd", 2, "one of the letters a, b, c", "'d'"),
        ("{3}", 0, "one of the letters", "'{'"),
        ("ab}", 2, "one of the letters", "'}'"),
        ("a{3}{2}", 4, "one of the letters", "'{'"),
        ("a{", 2, "a whole number from 1", "the end"),
        ("a{}", 2, "a whole number from 1", "'}'"),
        ("a{0}", 2, "a whole number from 1", "'0'"),
        ("a{000}", 2, "a whole number from 1", "'0'"),
        ("a{-3}", 2, "a whole number from 1", "'-'"),
        ("a{n}", 2, "a whole number from 1", "'n'"),
        ("a{²}", 2, "a whole number from 1", "'²'"),
        ("a{" + "9" * 6000 + "}", 2, "a whole number from 1", "'9'"),
        ("a{3", 3, "'}'", "the end"),
        ("a{3x}", 3, "a digit or '}'", "'x'"),
        (f"a{{{MAX_LENGTH}}}b", 23, "at most 1,000,000,000,000,000,000 letters", "more"),
    ],
)
def test_bad_strings(string, position, expected, found):
    with pytest.raises(ValueError) as caught:
        TOKENIZER.counts(string)
    message = str(caught.value)
    assert repr(string)[:8] in message
    assert f"position {position}: expected {expected}" in message
    assert message.endswith(f"found {found}")
    assert len(message) < 200


@pytest.mark.parametrize("thing", [None, 3, b"aac", ["aac"], float("nan")])
def test_things_that_are_not_strings(thing):
    with pytest.raises(ValueError, match="expected a string"):
        TOKENIZER.encode(thing)


@pytest.mark.parametrize("strings", ["aac", [], None, 3, {"aac"}])
def test_things_that_are_not_lists_of_strings(strings):
    with pytest.raises(ValueError, match="expected a list of strings"):
        TOKENIZER.encode_batch(strings)
    with pytest.raises(ValueError, match="expected a list of strings"):
        TOKENIZER.encode_spans(strings)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "position 0: expected a letter's id, found the end"),
        ([0], "position 1: expected a letter's id, found the end"),
        ([0, 1, 1], "position 1: expected a letter's id, found 1"),
        ([2, 3], r"position 0: expected 0 \(CLS\), found 2"),
        ([0, 7], r"position 1: expected 2 \(a\), 3 \(b\), 4 \(c\), found 7"),
        ([0, -1], "position 1: expected .* found -1"),
        ([0, 2, 0], "position 2: expected .* found 0"),
        ([0, 2, 1, 2], r"position 3: expected 1 \(PAD\), found 2"),
        ([0, 2.5], "expected whole numbers"),
        ("aac", "expected whole numbers"),
        (5, "expected whole numbers"),
    ],
)
def test_bad_ids(ids, message):
    with pytest.raises(ValueError, match=message):
        TOKENIZER.decode(ids)


@pytest.mark.parametrize("counts", [(1, 2), (0, 0, 0), (1, -1, 1), (1.5, 0, 0), 3, (MAX_LENGTH, 1, 0)])
def test_bad_counts(counts):
    with pytest.raises(ValueError, match="expected"):
        TOKENIZER.short_form(counts)


def test_a_huge_count_is_counted_but_not_written_out():
    assert TOKENIZER.counts("ab{1000000000000}") == (1, 10**12, 0)
    with pytest.raises(ValueError, match="1,000,000,000,001 letters: expected at most 10,000"):
        TOKENIZER.encode("ab{1000000000000}")
    assert len(TOKENIZER.encode(f"a{{{MAX_TOKENS}}}")) == 1 + MAX_TOKENS


def test_a_trace_has_no_more_positions_than_can_be_computed():
    assert len(TOKENIZER.encode_spans(["ab" * (MAX_SPANS // 2)])[0][0]) == 1 + MAX_SPANS
    with pytest.raises(ValueError, match="written as 1,001 letters: expected at most 1,000; write repeats as"):
        TOKENIZER.encode_spans(["a", "b" * (MAX_SPANS + 1)])


def test_other_alphabets():
    tokenizer = Tokenizer("abcdefghijklmnopqrstuvwxyz")
    assert tokenizer.encode("az") == [0, 2, 27]
    assert tokenizer.short_form(tokenizer.counts("zebra")) == "aberz"
    with pytest.raises(ValueError, match="position 0: expected one of the letters x, y"):
        Tokenizer("xy").encode("a")


@pytest.mark.parametrize(
    ("letters", "required"),
    [
        ("", "a"),
        ("aab", "a"),
        ("ba", "a"),
        ("abC", "a"),
        (3, "a"),
        ("abc", ""),
        ("abc", "d"),
        ("abc", "ba"),
        ("abc", "aa"),
    ],
)
def test_bad_tasks(letters, required):
    with pytest.raises(ValueError, match="expected one or more of"):
        Task(letters, required)
    if required == "a":
        with pytest.raises(ValueError, match="letters=.*expected one or more of"):
            Tokenizer(letters)
