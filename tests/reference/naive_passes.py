"""Slow twin of the calendar of passes: an engine and its clients as processes in SimPy, a pass a step, plain lists."""

from dataclasses import dataclass, field

import simpy

from engine.traffic.engines.scheduler import Scheduler


@dataclass
class Sequence:
    """A request on its way: tokens in the cache, tokens made, blocks."""

    number: int
    prompt: int
    wanted: int
    cached: int
    priority: int = 0
    written: int = 0
    made: int = 0
    blocks: int = 0
    over: bool = False

    @property
    def context(self) -> int:
        return self.prompt + self.made


@dataclass
class Machine:
    """Coefficients of given passes [s]."""

    base: float
    token: float
    token2: float
    decode: float
    sequence: float
    context: float
    least: float
    prefill_spared: float = 0.0  # where all other ranks are idle
    decode_spared: float = 0.0

    def seconds(self, prefill: int, contexts: list[int], idle: float) -> float:
        total = 0.0
        if prefill:
            total += self.base + self.token * prefill + self.token2 * prefill * prefill
            total -= idle * self.prefill_spared
        if contexts:
            n = len(contexts)
            total += max(self.least, self.decode + self.sequence * n + self.context * (sum(contexts) / n))
            total -= 0.0 if prefill else idle * self.decode_spared
        return total


@dataclass
class Twin:
    """Runs requests through a scheduler; ``arrive`` is filled by a closed loop."""

    machine: Machine
    rules: Scheduler
    arrive: list[float]
    lengths: list[tuple[int, ...]]  # prompt, output, cached, priority
    think: list[float]
    clients: int
    places: int | None = None
    first: dict[int, float] = field(default_factory=dict)
    finish: dict[int, float] = field(default_factory=dict)
    preempted: int = 0
    swapped: int = 0
    host: int = 0
    most: int = 0
    desk: simpy.Resource | None = None  # the front end, one for all ranks

    def run(self) -> None:
        run_together([self])

    def begin(self, env) -> None:
        self.env = env
        self.free = self.rules.kv_blocks
        self.coming: list[tuple[float, Sequence]] = []  # arrived, and not seen by the engine yet
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.next = self.clients or len(self.arrive)
        self.rang = self.env.event()
        self.desk = self.desk or simpy.Resource(env, 1)
        for number in range(self.next):
            self.env.process(self.arrives(number, self.arrive[number]))

    def arrives(self, number, at):
        if at > self.env.now:  # else it is seen at this very instant, before the engine looks
            yield self.env.timeout(at - self.env.now)
        one = Sequence(number, *self.lengths[number])
        if self.rules.serial:
            yield self.env.process(self.works(self.rules.read_s * one.prompt))
            at = self.env.now
        self.coming.append((at, one))
        if not self.rang.triggered:
            self.rang.succeed()

    def works(self, seconds):
        """The front end, first come first served."""
        with self.desk.request() as turn:
            yield turn
            yield self.env.timeout(seconds)

    def writes(self, one, place):
        """A token on its way to its client."""
        if self.rules.serial:
            yield self.env.process(self.works(self.rules.write_s + self.rules.repeat_s * (place - 1)))
        if place == 1:
            self.first[one.number] = self.env.now
        if place == one.wanted:
            self.finish[one.number] = self.env.now
            self.ask()

    def held(self, tokens):
        return -(-tokens // self.rules.block)

    def admits(self, one, left):
        if self.rules.reserve == 0.0:
            part = one.context if self.rules.prefill_first else (one.written or one.cached) + left
            return self.held(min(one.context, part)) <= self.free
        still = [*self.running, one]
        return self.rules.kv_blocks >= sum(
            self.held(s.context + -int(-(self.rules.reserve * (s.wanted - s.made)) // 1)) for s in still
        )

    def send_back(self, last):
        self.running.remove(last)
        self.free += last.blocks
        last.blocks = 0
        if self.rules.preempt == "swap" and not last.over:
            self.swap(last, 1)
        else:
            last.written = 0
        if not last.over:
            self.waiting.insert(0, last)
            self.waiting.sort(key=lambda s: s.priority)
            self.preempted += 1

    def swap(self, one, way):
        """Blocks of a sequence between a device and the host's memory, before the next pass."""
        self.moved += self.held(one.written)
        self.host += way * self.held(one.written)
        self.most = max(self.most, self.host)

    def prefilling(self):
        rules = self.rules
        if any(not s.over and s.context - s.written > 1 for s in self.running):
            return True
        if not self.waiting or len(self.running) == rules.max_seqs:
            return False
        head = self.waiting[0]
        start = head.written or head.cached
        if head.made and head.context - start == 1:
            return False
        return (rules.chunked or head.context - start <= rules.budget) and self.admits(head, rules.budget)

    def form(self, entry):
        """Whose tokens a pass works on, in order."""
        rules, left, shares, lost = self.rules, self.rules.budget, {}, self.preempted
        only = rules.prefill_first and entry and self.prefilling()
        for one in [*self.running]:
            if one not in self.running:
                continue
            need = 1 if one.over else one.context - one.written
            if left == 0 or (only and need == 1 and one.made):
                continue
            tokens = min(need, left)
            wanted = 0 if one.over else max(0, self.held(one.written + tokens) - one.blocks)
            while wanted > self.free and one in self.running:
                last = max(reversed(self.running), key=lambda s: s.priority)  # of equals the latest
                left += shares.pop(last.number, 0)
                self.send_back(last)
            if one in self.running:
                self.free -= wanted
                one.blocks += wanted
                left -= tokens
                shares[one.number] = tokens
        while entry and self.waiting and len(self.running) < rules.max_seqs and left and lost == self.preempted:
            one = self.waiting[0]
            start = one.written or one.cached
            need = one.context - start
            if rules.prefill_first and only == (need == 1 and one.made > 0):
                break
            if (need > left and not rules.chunked) or not self.admits(one, left):
                break
            tokens = min(need, left)
            self.running.append(self.waiting.pop(0))
            if one.written:
                self.swap(one, -1)
            one.written, one.blocks = start, self.held(start + tokens)
            self.free -= one.blocks
            left -= tokens
            shares[one.number] = tokens
        return shares

    def let_in(self, until):
        """Queues who has come; who finds the places taken is turned away."""
        for at, one in sorted(self.coming, key=lambda c: (c[0], c[1].number)):
            idle = not self.running and at >= until
            if at <= until and (self.places is None or len(self.waiting) - idle < self.places):
                self.waiting.append(one)
        self.waiting.sort(key=lambda s: s.priority)
        self.coming = [c for c in self.coming if c[0] > until]

    def next_pass(self, entry):
        """Forms a pass: its work, which it returns in tokens."""
        self.moved = 0
        self.shares = self.form(entry)
        self.swapped += self.moved
        self.work = [one for one in self.running if one.number in self.shares]
        decodes = [s for s in self.work if s.over or (s.made and s.context - s.written == 1)]
        self.prefill = sum(self.shares[s.number] for s in self.work if s not in decodes)
        self.contexts = [s.context for s in decodes]
        return self.prefill + len(decodes)

    def seconds(self, tokens):
        """What this rank takes for its part of a pass in which all have so many tokens."""
        own, others = self.prefill + len(self.contexts), self.rules.ranks - 1
        idle = max(0.0, 1.0 - (tokens - own) / (others * own)) if others * own else 0.0
        return self.machine.seconds(self.prefill, self.contexts, idle) + self.rules.swap_s * self.moved

    def book(self):
        """Books the tokens of the pass that ends."""
        for one in self.work:
            if one.over:
                self.leave(one)
                continue
            one.written += self.shares[one.number]
            if one.written < one.context:
                continue
            one.made += 1
            self.env.process(self.writes(one, one.made))
            if one.made == one.wanted:
                one.over = self.rules.asynchronous
                if not one.over:
                    self.leave(one)

    def leave(self, one):
        self.running.remove(one)
        self.free += one.blocks

    def ask(self):
        """A client's next request, after its think time."""
        if self.clients and self.next < len(self.arrive):
            self.arrive[self.next] = self.env.now + self.think[self.next]
            self.env.process(self.arrives(self.next, self.arrive[self.next]))
            self.next += 1


def run_together(ranks: list[Twin]) -> None:
    """Runs ranks of one engine: each forms a pass of its own, and all wait for the slowest."""
    env = simpy.Environment()
    for rank in ranks:
        rank.desk = ranks[0].desk
        rank.begin(env)
    env.process(_engine(env, ranks, ranks[0].rules))
    env.run()


def _engine(env, ranks, rules):
    began, ahead, wait = 0.0, 0, 0
    while True:
        if not any(rank.waiting or rank.running or rank.coming for rank in ranks):
            rang = env.event()
            for rank in ranks:
                rank.rang = rang
            yield rang
            began = env.now
        yield env.timeout(0)  # whoever comes at this very instant
        until = began + (1.0 - rules.overlap) * (env.now - began) if rules.asynchronous else env.now
        if ahead <= 0 or not any(rank.running for rank in ranks):
            for rank in ranks:
                rank.let_in(until)
            if not any(rank.waiting or rank.running for rank in ranks):  # no pass was formed ahead
                for rank in ranks:
                    rank.let_in(env.now)
            ahead = rules.steps
        balanced = len(ranks) > 1 and rules.balance_timeout and all(rank.running for rank in ranks)
        ready = [rank.prefilling() for rank in ranks]
        wait = (wait + 1) % rules.balance_timeout if balanced and not all(ready) else 0
        tokens = sum([rank.next_pass(not wait) for rank in ranks])
        ahead -= rules.steps == 1 or any(rank.contexts for rank in ranks)
        began = env.now
        yield env.timeout(max(rank.seconds(tokens) for rank in ranks))
        for rank in ranks:
            rank.book()
