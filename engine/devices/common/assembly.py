"""Text of a program: lines of words, comments, loops; what is wrong is said with its line and column."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.scenario import ScenarioError

MOST_INSTRUCTIONS = 100_000
"""Instructions a program may have once its loops are written out."""
MOST_TURNS = 65_536


class ProgramError(ScenarioError):
    """One sentence about a place of a program."""

    def __init__(self, line: int, column: int, sentence: str) -> None:
        super().__init__(f"line {line}, column {column}: {sentence}")
        self.line, self.column, self.sentence = line, column, sentence


@dataclass(frozen=True)
class Word:
    """A word and where it stands."""

    text: str
    line: int
    column: int

    def wrong(self, sentence: str) -> ProgramError:
        """The error of this place."""
        return ProgramError(self.line, self.column, sentence)


@dataclass(frozen=True)
class Line:
    """The words of a line, the first of which says what it does."""

    words: tuple[Word, ...]

    @property
    def head(self) -> Word:
        """Its first word."""
        return self.words[0]

    def take(self, least: int, most: int, what: str) -> tuple[Word, ...]:
        """The words behind the first; ProgramError where there are too few or too many."""
        rest = self.words[1:]
        if len(rest) < least:
            last = self.words[-1]
            missing = f"{self.head.text} takes {what}, but the line ends here"
            raise ProgramError(last.line, last.column + len(last.text), missing)
        if len(rest) > most:
            raise rest[most].wrong(f"{rest[most].text[:40]!r} is one too many: {self.head.text} takes {what}")
        return rest


def unknown(word: Word, what: str, known: Iterable[str]) -> ProgramError:
    """The error of a name that is none of those known; at most a few are listed."""
    names = list(known)
    shown = ", ".join(names[:32]) + (", ..." if len(names) > 32 else "")
    return word.wrong(f"{what} {word.text[:40]!r} is not known; allowed: {shown}")


def whole(word: Word, text: str, what: str, low: int, high: int) -> int:
    """A whole number from low to high. [-] ProgramError otherwise."""
    if not re.fullmatch(r"\d{1,12}", text) or not low <= int(text) <= high:
        raise word.wrong(f"{what} is {text[:40]!r}: a whole number from {low:,} to {high:,} is allowed")
    return int(text)


def _read(text: str) -> Iterator[Line]:
    """Lines that say something, their commas and comments left out."""
    if len(text) > 4_000_000:
        raise ProgramError(1, 1, f"the program has {len(text):,} characters; 4,000,000 are allowed")
    for number, line in enumerate(text.splitlines(), 1):
        body = re.sub(r"[;#].*", "", line)
        words = tuple(Word(m.group(), number, m.start() + 1) for m in re.finditer(r"[^\s,]+", body))
        if words:
            yield Line(words)


def lines_of(text: str) -> list[Line]:
    """All lines of a text with its loops (``loop N`` to ``end``) written out. ProgramError where one never ends."""
    open_loops: list[tuple[Word, int, list[Line]]] = []
    body: list[Line] = []
    for line in _read(text):
        if line.head.text == "loop":
            if len(line.words) < 2:
                raise line.head.wrong(
                    f"loop has no count, so it never ends; a count from 1 to {MOST_TURNS:,} is needed"
                )
            (count,) = line.take(1, 1, "a count")
            open_loops.append((line.head, whole(count, count.text, "the count of a loop", 1, MOST_TURNS), body))
            body = []
        elif line.head.text == "end":
            line.take(0, 0, "nothing")
            if not open_loops:
                raise line.head.wrong("end closes no loop")
            head, turns, before = open_loops.pop()
            if len(before) + turns * len(body) > MOST_INSTRUCTIONS:
                limit = f"the loop makes {turns * len(body):,} instructions; {MOST_INSTRUCTIONS:,} are allowed"
                raise head.wrong(limit)
            body = before + turns * body
        else:
            body.append(line)
    if open_loops:
        raise open_loops[-1][0].wrong("this loop never ends: its end is missing")
    return body
