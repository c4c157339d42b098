"""The question, and three ways to write down a string: letters, token ids, letter counts.

The question: does a string over the letters a, b, c contain at least one `a` and at least one `b`?

    "aac"   token ids [0, 2, 2, 4]      counts (2, 0, 1)   answer 0
    "baac"  token ids [0, 3, 2, 2, 4]   counts (2, 1, 1)   answer 1

`x{n}` stands for n times x: "ab{100}" is one a and a hundred b.
"""

import operator
import re
import reprlib
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from string import ascii_lowercase

CLS, PAD, FIRST_LETTER = 0, 1, 2
SPECIAL_TOKENS = ("CLS", "PAD")

MAX_LENGTH = 10**18
"""The longest string that letter counts may stand for: its length fits in 64 bits."""

MAX_TOKENS = 10_000
"""The longest string that is written out as one token for each letter."""

MAX_SPANS = 1_000
"""The most letters, each alone or with its count, as which a string may be written for a trace."""


def contains_all(string: Container[str], required: str = "ab") -> bool:
    """Say whether every required letter occurs in the string, written out or in short form."""
    return all(letter in string for letter in required)


@dataclass(frozen=True)
class Task:
    """Which letters there are, and which of them a string must contain to be answered with 1.

    Raises `ValueError` unless `letters` are distinct lower-case letters in alphabetical order and
    `required` is a non-empty choice of them, in alphabetical order too.
    """

    letters: str = "abc"
    required: str = "ab"

    def __post_init__(self):
        _check_letters("letters", self.letters, ascii_lowercase)
        _check_letters("required", self.required, self.letters)


@dataclass(frozen=True)
class Tokenizer:
    """Turns strings into token ids or letter counts, and back. Raises `ValueError` for bad input."""

    letters: str = "abc"

    def __post_init__(self):
        _check_letters("letters", self.letters, ascii_lowercase)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The name of each token, at the index that is its id: CLS, PAD, then the letters."""
        return SPECIAL_TOKENS + tuple(self.letters)

    def parse(self, string: str) -> list[tuple[str, int]]:
        """Read a string in the notation: "ab{100}" gives [("a", 1), ("b", 100)]."""
        if not isinstance(string, str):
            raise ValueError(f"expected a string such as 'ab{{100}}c', found {brief(string)}")
        spans, position = [], 0
        while position < len(string) or not spans:
            letter, count, position = self._span_at(string, position)
            spans.append((letter, count))
        if sum(count for _, count in spans) > MAX_LENGTH:
            raise _error(string, len(string), f"at most {MAX_LENGTH:,} letters", "more")
        return spans

    def _span_at(self, string: str, position: int) -> tuple[str, int, int]:
        """Read `x` or `x{n}`; give the letter, the count and the position behind them."""
        match = re.compile(rf"([{self.letters}])(?:(\{{)0*([0-9]*)(\}})?)?").match(string, position)
        if not match:
            raise _error(string, position, f"one of the letters {', '.join(self.letters)}")
        letter, brace, digits, is_closed = match.groups()
        # The number of digits is looked at first: Python refuses to read numbers of thousands of digits.
        if brace and not (1 <= len(digits) <= len(str(MAX_LENGTH)) and int(digits) <= MAX_LENGTH):
            raise _error(string, match.end(2), f"a whole number from 1 to {MAX_LENGTH:,}")
        if brace and not is_closed:
            raise _error(string, match.end(), "'}'" if match.end() == len(string) else "a digit or '}'")
        return letter, int(digits or 1), match.end()

    def counts(self, string: str) -> tuple[int, ...]:
        """Count each letter of a string: "ab{100}" gives (1, 100, 0)."""
        total: Counter[str] = Counter()
        for letter, count in self.parse(string):
            total[letter] += count
        return tuple(total[letter] for letter in self.letters)

    def short_form(self, counts: Iterable[int]) -> str:
        """Write letter counts as one canonical string: (2, 1, 30) gives "a{2}bc{30}"."""
        counts = whole_numbers(counts)
        if len(counts) != len(self.letters) or min(counts) < 0 or not 1 <= sum(counts) <= MAX_LENGTH:
            raise ValueError(
                f"counts {brief(counts)}: expected {len(self.letters)} numbers, "
                f"none negative, with a sum from 1 to {MAX_LENGTH:,}"
            )
        return "".join(self.span(letter, count) for letter, count in zip(self.letters, counts, strict=True) if count)

    def span(self, letter: str, count: int) -> str:
        """Write one letter and its count: ("a", 1) gives "a", ("a", 2) gives "a{2}"."""
        return letter if count == 1 else f"{letter}{{{count}}}"

    def _ids(self, letters: Iterable[str]) -> list[int]:
        return [FIRST_LETTER + self.letters.index(letter) for letter in letters]

    def encode(self, string: str) -> list[int]:
        """Write a string as token ids, CLS first: "aac" gives [0, 2, 2, 4]."""
        spans = self.parse(string)
        length = sum(count for _, count in spans)
        if length > MAX_TOKENS:
            raise ValueError(
                f"{brief(string)} has {length:,} letters: expected at most {MAX_TOKENS:,} "
                "where each letter becomes a token; letter counts have no such limit"
            )
        return [CLS, *(token for letter, count in spans for token in self._ids(letter) * count)]

    def encode_batch(self, strings: Sequence[str]) -> list[list[int]]:
        """Write several strings as rows of equal length, padded with PAD on the right."""
        return _padded([self.encode(string) for string in _several(strings)], PAD)

    def encode_spans(self, strings: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        """Write each `x` and each `x{n}` of several strings as one token; give the token ids and their multiplicities.

        ["ab{100}"] gives [[0, 2, 3]] and [[1, 1, 100]]. Rows are padded with PAD, of multiplicity 1.
        """
        spans = [self.parse(string) for string in _several(strings)]
        for string, row in zip(strings, spans, strict=True):
            if len(row) > MAX_SPANS:
                raise ValueError(
                    f"{brief(string)} is written as {len(row):,} letters: expected at most {MAX_SPANS:,}; "
                    "write repeats as a{100}"
                )
        ids = [[CLS, *self._ids(letter for letter, _ in row)] for row in spans]
        multiplicities = [[1, *(count for _, count in row)] for row in spans]
        return _padded(ids, PAD), _padded(multiplicities, 1)

    def decode(self, token_ids: Iterable[int]) -> str:
        """Turn token ids back into letters: [0, 2, 2, 4, 1] gives "aac"."""
        ids = whole_numbers(token_ids)
        length = ids.index(PAD) if PAD in ids else len(ids)
        for position, token in enumerate(ids):
            allowed = _allowed_ids(position, length, len(self.vocabulary))
            if token not in allowed:
                names = ", ".join(f"{i} ({self.vocabulary[i]})" for i in allowed)
                raise _error(ids, position, names)
        if length < 2:
            raise _error(ids, length, "a letter's id")
        return "".join(self.vocabulary[token] for token in ids[1:length])


def _check_letters(name: str, value: str, allowed: str) -> None:
    if not isinstance(value, str) or not value or "".join(sorted(set(value) & set(allowed))) != value:
        raise ValueError(f"{name}={value!r}: expected one or more of {allowed!r}, in alphabetical order, none twice")


def _several(strings: Sequence[str]) -> Sequence[str]:
    if isinstance(strings, str) or not isinstance(strings, Sequence) or not strings:
        raise ValueError(f"expected a list of strings such as ['aac', 'baac'], found {brief(strings)}")
    return strings


def _padded(rows: list[list[int]], fill: int) -> list[list[int]]:
    return [list(row) for row in zip(*zip_longest(*rows, fillvalue=fill), strict=True)]


def _allowed_ids(position: int, length: int, vocabulary_size: int) -> range:
    if position == 0:
        return range(CLS, CLS + 1)
    if position < length:
        return range(FIRST_LETTER, vocabulary_size)
    return range(PAD, PAD + 1)


def brief(value: object) -> str:
    """Show a value in so few characters that it fits into a message, whatever it is."""
    text = reprlib.repr(value)
    return text if len(text) <= 80 else f"{text[:40]}...{text[-37:]}"


def whole_numbers(values: Iterable[int]) -> list[int]:
    """Read the values of a list, a tensor or the like as whole numbers; raises `ValueError` for anything else."""
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise ValueError(f"expected whole numbers, found {brief(values)}") from None


def _error(text: str | list[int], position: int, expected: str, found: str | None = None) -> ValueError:
    if found is None:
        found = repr(text[position]) if position < len(text) else "the end"
    return ValueError(f"{brief(text)}, position {position}: expected {expected}, found {found}")
