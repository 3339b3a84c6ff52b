"""Up to eight scenarios side by side, as one token in the address bar (``c``), and as this session's comparison.

The token is the version, the baseline's place, and the scenarios' own tokens, each with its note: ``10~1z..~1z..``.
Every scenario keeps its own checksum, so a damaged part costs that part and nothing else.
"""

import base64
import binascii
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlsplit

import streamlit as st

from app.shared import formats as fmt
from app.shared import link
from app.shared.boundary import callback
from app.shared.widgets.choices import parameter, say
from engine.devices.common.contract import Unsupported
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError, decode, encode, token_in

PARAM = "c"
VERSION = 1
LETTERS = "ABCDEFGH"
CAPACITY = len(LETTERS)
LIMIT = 6_144  # characters; with the session's own two tokens still below the 8 kB a proxy takes
NOTE_LIMIT = 200  # characters


@dataclass(frozen=True)
class Entry:
    """A scenario and what its user wrote about it."""

    scenario: Scenario
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Scenarios in order; deltas refer to ``entries[baseline]``."""

    entries: tuple[Entry, ...]
    baseline: int = 0


def _clean(note: str) -> str:
    """A note as one line of bounded length."""
    return " ".join("".join(c if c.isprintable() else " " for c in note).split())[:NOTE_LIMIT].strip()


def write(comparison: Comparison) -> str:
    """Token of a comparison."""
    parts = []
    for entry in comparison.entries:
        note = base64.urlsafe_b64encode(_clean(entry.note).encode()).rstrip(b"=").decode()
        parts.append(encode(entry.scenario) + (f".{note}" if note else ""))
    return f"{VERSION}{comparison.baseline}~" + "~".join(parts)


def read(token: str) -> tuple[Comparison, str | None]:
    """Comparison of a token, and one sentence where some of it is left out; ScenarioError where nothing is readable."""
    if len(token) > LIMIT:
        raise ScenarioError(f"This comparison has {len(token):,} characters; at most {LIMIT:,} are allowed")
    head, _, body = token.partition("~")
    if len(head) != 2 or not head.isascii() or not head.isdigit() or not body:
        raise ScenarioError("This comparison is damaged: it does not begin like one")
    version, baseline = int(head[0]), int(head[1])
    if version != VERSION:
        origin = "a newer version" if version > VERSION else "no version that exists"
        raise ScenarioError(f"This comparison was made by {origin} ({version}; this server reads {VERSION})")
    pieces = body.split("~")
    entries: dict[int, Entry] = {}
    reasons, says = [], []
    for at, part in enumerate(pieces[:CAPACITY]):
        scenario_token, _, note = part.partition(".")
        try:
            scenario = decode(scenario_token)
            with suppress(Unsupported):  # a column says why: pricing it is its business
                bind(scenario)
            entries[at] = Entry(scenario, _note(note))
        except ScenarioError as error:
            reasons.append(str(error).rstrip("."))
    if not entries:
        raise ScenarioError(f"This comparison has no scenario that can be read. {reasons[0]}")
    if missing := len(pieces) - len(entries):
        why = [*reasons, f"at most {CAPACITY} are read"][0]
        says.append(f"{missing} of {len(pieces)} scenarios of this comparison left out ({why})")
    if baseline not in entries:
        says.append("the first is the baseline")
    comparison = Comparison(tuple(entries.values()), list(entries).index(baseline) if baseline in entries else 0)
    return comparison, fmt.sentence("; ".join(says)) if says else None


def _note(text: str) -> str:
    """A note out of a link; what is not text is no note."""
    try:
        return _clean(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode())
    except (binascii.Error, ValueError):
        return ""


def current() -> Comparison:
    """The comparison of this session; this scenario with its baseline before anybody chose."""
    if comparison := st.session_state.get("comparison"):
        return comparison
    now = Entry(link.current())
    token = link.baseline()
    if token and token != st.session_state.token:
        pair = Comparison((Entry(link.read(token)), now))
        if len(write(pair)) <= LIMIT:
            return pair
    return Comparison((now,))


def sync() -> None:
    """Once a run of the page: the address wins over the session, the session repairs the address.

    What the address held and can't be read is said.
    """
    ss = st.session_state
    token = parameter(PARAM)
    if token and token != write(current()):
        try:
            ss.comparison, message = read(token)
            if message:
                say(PARAM, message)
        except ScenarioError as error:
            usual = "your" if ss.get("comparison") else "the usual"
            say(PARAM, f"{fmt.sentence(error)} Showing {usual} comparison")
    _mirror()


def _mirror() -> None:
    token = write(current())
    if st.query_params.get(PARAM) != token:
        st.query_params[PARAM] = token


def _take(comparison: Comparison) -> bool:
    """Make it the session's if a link can hold it."""
    if len(write(comparison)) > LIMIT:
        say(
            PARAM,
            f"A link of {len(write(comparison)):,} characters would be needed; at most {LIMIT:,} are allowed. "
            "Remove a scenario or shorten a note. Nothing was changed",
        )
        return False
    st.session_state.comparison = comparison
    if PARAM in st.query_params:  # else another page is open, and its address is not ours
        _mirror()
    return True


@callback
def add(*entries: Entry) -> None:
    """Put scenarios beside the others (a callback); the ones that are there already stay where they are."""
    now = current()
    fresh = tuple(e for e in entries if all(e.scenario != old.scenario for old in now.entries))
    room = CAPACITY - len(now.entries)
    if _take(replace(now, entries=now.entries + fresh[:room])) and len(fresh) > room:
        say(PARAM, f"{CAPACITY} scenarios fit beside each other; remove one to add another")


def paste(text: str) -> None:
    """Add what a link or a token holds: a scenario, or all of a comparison (a callback)."""
    if not (text := text.strip()):
        return
    try:
        whole = parse_qs(urlsplit(text).query).get(PARAM) if "?" in text else None
        if whole:
            tokens, message = read(whole[0])
            add(*tokens.entries)
            if message:
                say(PARAM, message)
        else:
            add(Entry(link.read(token_in(text))))
    except (ScenarioError, ValueError) as error:
        reason = error if isinstance(error, ScenarioError) else "This is no link"
        say(PARAM, f"{fmt.sentence(reason)} Nothing was added")


@callback
def remove(at: int) -> None:
    """Take one away (a callback); the last one stays."""
    now = current()
    if len(now.entries) > 1 and at < len(now.entries):
        entries = now.entries[:at] + now.entries[at + 1 :]
        baseline = 0 if at == now.baseline else now.baseline - (at < now.baseline)
        _take(Comparison(entries, baseline))


def rebase(at: int) -> None:
    """Let the deltas refer to another one (a callback)."""
    _take(replace(current(), baseline=at))


def annotate(at: int, note: str) -> None:
    """Write a note beside one (a callback)."""
    now = current()
    entry = replace(now.entries[at], note=_clean(note))
    _take(replace(now, entries=(*now.entries[:at], entry, *now.entries[at + 1 :])))


def compare_now(*scenarios: Scenario) -> None:
    """Take the session's scenario and others to the Compare page (from a page's body: a callback knows no pages)."""
    add(Entry(link.current()), *map(Entry, scenarios))
    link.show("compare", query={PARAM: write(current())})
