"""The op vocabulary: what an operator does, in exact counts, as a function of batch and length.

Every count is a `Dim`: ``coef * B**b * S**s * min(C, cap)**c`` with exponents 0 or 1, where B is the batch, S the
tokens (steps, frames) of one pass and C the context they attend to. A layer that looks back no further than a window
has operators of its own, whose counts stop growing there: their `cap`; one that looks back in its own chunk begins
`anew` at each. Counts are facts about the mathematics; what they cost is the engine's business.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from entries.files import read_plain

KINDS: dict[str, dict[str, Any]] = read_plain(Path(__file__).with_name("kinds.yaml"))
"""Kinds of operators with their `class`, and `work` per element and `wide` where they have them."""

LOOKUPS, CONTRACTIONS = (
    tuple(kind for kind, of in KINDS.items() if of["class"] == name) for name in ("lookup", "contraction")
)
"""Kinds that read rows of a table by index; that multiply matrices."""


@dataclass(frozen=True, slots=True)
class Dim:
    """``coef * B**b * S**s * seen(C)**c``: a count linear in batch, pass length and context up to `cap`. [-]"""

    coef: float
    b: int = 0
    s: int = 0
    c: int = 0
    cap: float = math.inf  # tokens of context beyond which the count stops growing ...
    anew: bool = False  # ... or, of single tokens, begins anew: a chunk

    def at(self, batch: float = 1, length: float = 1, context: float = 1, span: float = 0) -> float:
        """Value for a batch, a pass length and a context; the mean over `span` contexts around it: see `seen`. [-]"""
        back = seen(context, span, self.cap, self.anew) if self.c else 1
        return self.coef * (batch if self.b else 1) * (length if self.s else 1) * back

    def __mul__(self, other: "Dim | float") -> "Dim":
        if not isinstance(other, Dim):
            return replace(self, coef=self.coef * other)
        b, s, c = self.b + other.b, self.s + other.s, self.c + other.c
        if max(b, s, c) > 1:
            raise ValueError(f"{self} * {other} is not linear in batch, length and context")
        return Dim(self.coef * other.coef, b, s, c, min(self.cap, other.cap), self.anew or other.anew)

    __rmul__ = __mul__


ZERO = Dim(0.0)
ONE = Dim(1.0)


def dim(coef: float, symbols: str = "", cap: float = math.inf, anew: bool = False) -> Dim:
    """Short form: ``dim(4096, "bs")`` is 4096 * batch * length. Symbols are b, s and c, of c at most `cap`."""
    return Dim(float(coef), int("b" in symbols), int("s" in symbols), int("c" in symbols), cap, anew)


def seen(context: float, span: float, cap: float, anew: bool = False) -> float:
    """Tokens that a token sees back to a window or in its chunk of `cap`, its own with them. [-]

    Exact mean over `span` tokens, one after the other, whose contexts have the mean `context`. A span of 0 is a pass of
    many tokens, counted as the square of all by the most that one sees.
    """
    if span <= 0 or math.isinf(cap):
        return min(context, cap)
    last = context + (span - 1) / 2
    if anew:
        return (_in_chunks(last, cap) - _in_chunks(last - span, cap)) / span
    past = min(max(last - cap, 0), span)  # tokens that see a whole window, and that many tokens less than all
    return cap if past == span else context - past * (past + 1) / (2 * span)


def _in_chunks(tokens: float, cap: float) -> float:
    """What so many tokens, the first of a sequence, see in their chunks together. [-]"""
    whole = tokens // cap
    tail = tokens - whole * cap
    return whole * cap * (cap + 1) / 2 + tail * (tail + 1) / 2


@dataclass(frozen=True, slots=True)
class Sum:
    """Several counts together, where no one of them tells all: caches of layers that look back differently far. [-]"""

    terms: tuple[Dim, ...] = ()

    def at(self, batch: float = 1, length: float = 1, context: float = 1) -> float:
        """Value for a batch, a pass length and a context. [-]"""
        return sum((term.at(batch, length, context) for term in self.terms), 0.0)

    @property
    def c(self) -> bool:
        """Whether any of it grows with the context."""
        return any(term.c for term in self.terms)

    @property
    def per_token(self) -> float:
        """What a token of context adds as long as no window is full: of a KV cache, its keys and values. [-] Exact."""
        return sum(term.coef for term in self.terms if term.c)


Shard = Literal["n", "g", "k", "elements", "none"]


@dataclass(frozen=True, slots=True)
class Op:
    """One operator of a pass; `layers` identical copies of it exist, each runs `steps` times a pass.

    Counts are per execution of one copy. `stored` is the parameters a copy keeps (0 where another op owns them);
    `weights` is the parameters an execution reads, which differs for lookups (rows touched), experts and tied matrices;
    an execution never reads a parameter it stores twice, so `weights_read` caps it at `stored`.
    An op sharded by "g" is dealt out by its G parts (heads), contraction or not.
    `gather_rows` counts random row accesses of an execution and `row_elements` their length.
    """

    name: str
    kind: str
    group: str
    inputs: tuple[str, ...] = ()
    layers: int = 1
    steps: Dim = ONE
    g: Dim = ONE
    m: Dim = ZERO
    n: Dim = ZERO
    k: Dim = ZERO
    flops: Dim = ZERO
    stored: float = 0.0
    weights: Dim = ZERO
    reads: Dim = ZERO
    writes: Dim = ZERO
    state_reads: Dim = ZERO
    state_writes: Dim = ZERO
    gather_rows: Dim = ZERO
    row_elements: float = 0.0
    shard: Shard = "none"
    sequential: bool = False  # an execution waits for the one before it (recurrence)
    quantisable: bool = True  # may run in the scenario's low precision; otherwise in the device's wide one
    attributes: tuple[tuple[str, float], ...] = field(default=())  # e.g. (("kernel", 3.0), ("stride", 2.0))

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"op {self.name!r} has kind {self.kind!r}, which is not in the vocabulary")
        if self.layers < 1:
            raise ValueError(f"op {self.name!r} has {self.layers} layers; at least 1 is needed")

    @property
    def cap(self) -> float:
        """Tokens of context beyond which its counts stop growing: a window, a chunk; infinite without one. [-]"""
        counts = (self.g, self.m, self.n, self.k, self.flops, self.reads, self.writes, self.state_reads, self.weights)
        caps = {count.cap for count in counts if count.c}
        if len(caps) > 1:
            raise ValueError(f"op {self.name!r} looks back {sorted(caps)} tokens; it can have one window")
        return caps.pop() if caps else math.inf

    @property
    def anew(self) -> bool:
        """Whether a token sees those of its own chunk alone, where counts stop growing."""
        return any(count.anew for count in (self.n, self.k, self.flops, self.state_reads) if count.c)

    @property
    def contraction(self) -> bool:
        """Whether the op is a product of matrices (its work is G * M * N * K multiply-adds)."""
        return self.kind in CONTRACTIONS

    def macs(self, batch: float = 1, length: float = 1, context: float = 1, span: float = 0) -> float:
        """Multiply-adds of one execution of one copy; 0 for an op that isn't a contraction. [-]"""
        if not self.contraction:
            return 0.0
        at = (batch, length, context, span)
        return self.g.at(*at) * self.m.at(*at) * self.n.at(*at) * self.k.at(*at)

    def weights_read(self, batch: float = 1, length: float = 1, context: float = 1) -> float:
        """Distinct parameters one execution reads. [elements]

        An upper bound where rows or experts are chosen by the data (no two choices coincide until all are in use).
        """
        read = self.weights.at(batch, length, context)
        return min(read, self.stored) if self.stored else read

    def attribute(self, name: str, default: float = 0.0) -> float:
        """Value of a named attribute, e.g. the kernel size of a convolution."""
        return dict(self.attributes).get(name, default)


def readers_of(ops: Iterable[Op]) -> dict[str, list[Op]]:
    """Operators that read a result, by the name of the one that makes it, in order."""
    readers: dict[str, list[Op]] = {}
    for op in ops:
        for name in op.inputs:
            readers.setdefault(name, []).append(op)
    return readers


def recurrence(ops: Sequence[Op], at: int) -> int:
    """Number of ops of the recurrent cell that starts at `at`: the product of its inputs, if it has one, then what
    steps through the sequence; 0 where no cell starts there. [-]"""
    first = ops[at]
    inner = end = at + (not first.sequential)
    while end < len(ops) and ops[end].sequential:
        end += 1
    if not any(op.contraction for op in ops[inner:end]):
        return 0
    return end - at if inner == at or (first.contraction and first.steps == ops[inner].steps) else 0


def known_ahead(ops: Sequence[Op], at: int) -> bool:
    """Whether the op at `at` multiplies a recurrent cell's inputs, which are there for all steps before the first."""
    return not ops[at].sequential and recurrence(ops, at) > 0


@dataclass(frozen=True, slots=True)
class Linear:
    """``const + i * I + o * O`` of a request's input length I and output length O."""

    const: float = 0.0
    i: float = 0.0
    o: float = 0.0

    def at(self, inputs: float, outputs: float) -> float:
        """Value for a request of those lengths. [-]"""
        return self.const + (self.i * inputs if self.i else 0.0) + (self.o * outputs if self.o else 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """A kind of pass through the network, `repeat` times a request, each over S tokens with context C.

    Decoding O tokens is one pass over the I input tokens and O - 1 passes of one token whose context grows from
    I + 1 to I + O - 1; because every count is linear in what a token sees, the mean I + O / 2 and the `span` of O - 1
    contexts around it stand for all of them exactly in work and bytes, and to first order in time. Phases compare by
    identity, so that tables made of them are found fast.
    """

    name: str
    ops: tuple[Op, ...]
    length: Linear = Linear(1.0)
    context: Linear = Linear(1.0)
    repeat: Linear = Linear(1.0)

    def span(self, inputs: float, outputs: float) -> float:
        """Tokens that its passes write at contexts of their own, `context` their mean; 0 where it does not grow. [-]"""
        return self.repeat.at(inputs, outputs) / self.repeat.o if self.context.o and self.repeat.o else 0.0

    def sizes(self, batch: float, inputs: float, outputs: float) -> tuple[float, float, float, float]:
        """Where its counts are read for a request: batch, pass length, context, span. [-]"""
        at = inputs, outputs
        return batch, self.length.at(*at), self.context.at(*at), self.span(*at)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Graph:
    """A workload lowered to ops: its phases, and what a request of it is."""

    phases: tuple[Phase, ...]
    unit: str  # what is counted in throughput: token, image, sample, sentence, inference ...
    units_per_request: Linear = Linear(1.0)  # times the batch
    causal: bool = False
    state_elements: Sum = Sum()  # resident state (KV cache, recurrent state) at context C
    input_elements: Dim = ONE  # of one request, what enters, with S the request's input length
    output_elements: Dim = ONE  # of one request, what leaves, with S the request's output length
    input_indices: Dim = ZERO  # of those that enter: token ids and rows of tables, integers at any precision
    output_indices: Dim = ZERO  # of those that leave
    positions: int = 0  # tokens a table of learned positions covers; 0: no such table

    @property
    def ops(self) -> list[Op]:
        """Operators of all phases, in order."""
        return [op for phase in self.phases for op in phase.ops]

    def map_ops(self, of: Callable[[Op], Op | None]) -> "Graph":
        """The graph with what becomes of each operator; one that becomes None is left out."""
        return replace(self, phases=tuple(replace(p, ops=tuple(filter(None, map(of, p.ops)))) for p in self.phases))

    @property
    def seen(self) -> bool:
        """Whether it takes one image at a time, so that a camera's frame is a request of it."""
        return self.unit == "image" or (self.phases[0].ops[0].kind == "Conv" and self.unit in ("inference", "sample"))

    @property
    def items(self) -> bool:
        """Whether a request is so many items, computed in one batch or in several."""
        return self.unit == "item"

    @property
    def state_is_wide(self) -> bool:
        """Whether operators that stay wide keep the state: a checkpoint that is narrow in its weights alone."""
        writers = [op for op in self.ops if op.state_writes.coef]
        caches = [op for op in writers if op.state_writes.s] or writers
        return bool(caches) and not any(op.quantisable for op in caches)

    @property
    def parameters(self) -> float:
        """Parameters stored, each counted once. [-]"""
        firsts: dict[str, Op] = {}
        for op in self.ops:
            firsts.setdefault(op.name, op)
        return sum(op.stored * op.layers for op in firsts.values())

    def macs(self, batch: float = 1, inputs: float = 1, outputs: float = 1) -> float:
        """Multiply-adds of the contractions of one request: what papers print as MACs or half of the FLOPs. [-]"""
        return self._sum(Op.macs, batch, inputs, outputs)

    def flops(self, batch: float = 1, inputs: float = 1, outputs: float = 1) -> float:
        """FLOPs of one request, a multiply-add counted as two. [FLOP]"""
        return self._sum(lambda op, *at: op.flops.at(*at), batch, inputs, outputs)

    def _sum(self, count: Callable[..., float], batch: float, inputs: float, outputs: float) -> float:
        total = 0.0
        for phase in self.phases:
            at = phase.sizes(batch, inputs, outputs)
            once = sum(count(op, *at) * op.layers * op.steps.at(*at) for op in phase.ops)
            total += once * phase.repeat.at(inputs, outputs)
        return total
