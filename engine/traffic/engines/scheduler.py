"""How a serving engine of language models forms its passes, as data, and the defaults of three engines."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.scenario.token import brief
from engine.traffic.engines.priority import Shares, check
from engine.traffic.service import TrafficError, positive, whole


@dataclass(frozen=True)
class Scheduler:
    """How a serving engine forms its passes.

    Attributes
    ----------
    budget : int
        Tokens a pass takes in and makes. [tokens]
    chunked : bool
        A prompt may enter in pieces; else only where the budget left takes the whole of it.
    prefill_first : bool
        A pass prefills or decodes, and prefills where it can; else the two share each pass.
    reserve : float
        Share of the output still to come for which admission keeps cache free: 0 blocks are given as tokens come and
        the latest sequence is preempted where none is left, 1 nobody ever is. [-]
    kv_blocks, block : int or None, int
        Blocks of the cache and tokens of a block; None: as many as the device has room for. [-], [tokens]
    memory_share, free_share : float
        Of each device's off-chip memory, what weights, passes and the cache may fill; and of what the former two leave
        of it, what the cache may. [-]
    passes_apart : bool
        That share is of weights and cache alone; passes have the rest.
    preempt : str
        What happens to the blocks of a preempted sequence: ``recompute``, it is prefilled again; ``swap``, they cross
        the host's link to its memory and return before it runs again, and the pass waits for both.
    swap_blocks, swap_s : int or None, float
        Blocks that the host's memory takes, of each rank, None: any number; a block's time on the link. [-], [s]
    max_seqs : int
        Sequences in the engine at once. [-]
    prefix_hit : float
        Share of every prompt whose keys and values are in the cache already; its blocks count all the same. [-]
    asynchronous, hidden : bool
        The next pass is formed while one runs, which sees ends one pass later; and the host's work is hidden beneath
        the device's, so that the longer of both counts. Else it follows the device's.
    overlap : float
        Share of a pass that is still to run when an asynchronous engine forms the next one: who comes in that share
        waits a pass longer. 1: it is formed as soon as the one before it starts. [-]
    steps : int
        Passes of decoding that one decision lasts beside the prompts it takes in (``--num-scheduler-steps`` of vLLM up
        to 0.9): who comes meanwhile waits for the next, but for who finds the engine idle. 1: a pass is one. [-]
    host_s, sequence_s : float
        The host's work for a pass and for each sequence in it. [s]
    read_s, write_s, repeat_s : float
        A serial front end, one for all ranks of an engine: its time for each token of a prompt before that waits, for
        each token on its way out, and more of the same for each that the answer has already. 0: there is none. [s]
    acceptance : tuple of float
        Speculation: tokens guessed ahead are as many as entries, each the chance that the guess at its place is right
        where all before it are. [-]
    ranks : int
        Attention ranks of an engine: each with all of this for requests of its own, dealt in turn; they step together,
        so that a pass takes what the slowest rank's does; layers they share take what all have, without padding. [-]
    balance_timeout : int
        Passes that prompts wait until every rank has one, unless a rank has nothing to decode (TensorRT-LLM's
        ``attention_dp_config``, of which this is ``timeout_iters``); 0: they do not. [-]
    priorities : tuple of (float, int)
        Share and priority number of each class of requests: the smallest number is admitted first, and preempted last.
        Empty: all alike. [-]
    replicas : int
        Engines alike, each with a cache of its own; requests are dealt to them in turn, as are the clients. [-]
    """

    budget: int = 8192
    chunked: bool = True
    prefill_first: bool = False
    reserve: float = 0.0
    kv_blocks: int | None = None
    block: int = 16
    memory_share: float = 0.9
    free_share: float = 1.0
    passes_apart: bool = False
    preempt: str = "recompute"
    swap_blocks: int | None = None
    swap_s: float = 0.0
    max_seqs: int = 256
    prefix_hit: float = 0.0
    asynchronous: bool = False
    hidden: bool = True
    overlap: float = 1.0
    steps: int = 1
    host_s: float = 0.0
    sequence_s: float = 0.0
    read_s: float = 0.0
    write_s: float = 0.0
    repeat_s: float = 0.0
    acceptance: tuple[float, ...] = ()
    priorities: Shares = ()
    ranks: int = 1
    balance_timeout: int = 0
    replicas: int = 1

    def __post_init__(self) -> None:
        for name in ("budget", "block", "max_seqs", "ranks", "replicas", "steps"):
            whole(name, getattr(self, name))
        whole("balance_timeout", self.balance_timeout, low=0)
        for name, value in (("kv_blocks", self.kv_blocks), ("swap_blocks", self.swap_blocks)):
            if value is not None:
                whole(name, value)
        if self.preempt not in ("recompute", "swap"):
            raise TrafficError(f"preempt is {brief(self.preempt)}; it must be recompute or swap")
        for name in ("reserve", "prefix_hit", "overlap", "memory_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise TrafficError(f"{name} is {getattr(self, name)!r}; it must be a number from 0 to 1")
        if not 0.0 < self.free_share <= 1.0:
            raise TrafficError(f"free_share is {self.free_share!r}; it must be a number above 0, at most 1")
        if any(not 0.0 <= chance <= 1.0 for chance in self.acceptance):
            raise TrafficError(f"acceptance is {self.acceptance}; it must hold numbers from 0 to 1")
        check(self.priorities)
        for name in ("host_s", "sequence_s", "swap_s", "read_s", "write_s", "repeat_s"):
            positive(name, getattr(self, name), zero=True)

    def most_seqs(self, tokens: int) -> int:
        """Sequences of so many tokens each that run in a full engine: by its seats and its cache. [-]"""
        fit = self.max_seqs if self.kv_blocks is None else self.kv_blocks // -(-tokens // self.block)
        return max(1, min(self.max_seqs, fit))

    def cached_tokens(self, prompts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens of each prompt in the cache already: never its last, which is computed, or no first one is out. [-]"""
        return np.clip(np.floor(self.prefix_hit * prompts).astype(np.int64), 0, prompts - 1)

    @property
    def serial(self) -> bool:
        """Whether there is a front end."""
        return max(self.read_s, self.write_s, self.repeat_s) > 0.0

    def front_end_s(self, inputs: Any, outputs: Any) -> Any:
        """The front end's time for requests of so many tokens in and out, numbers or arrays. An estimate. [s]"""
        return self.read_s * inputs + self.write_s * outputs + self.repeat_s * outputs * (outputs - 1) / 2


NO_BATCHING = "no-batching"
POLICIES = {
    "vllm": Scheduler(),
    "sglang": Scheduler(
        prefill_first=True,
        reserve=0.5,
        block=1,
        memory_share=0.85,
        passes_apart=True,
        max_seqs=1024,
        read_s=2e-6,
        write_s=3.2e-5,
        repeat_s=2.8e-8,
    ),
    "trtllm": Scheduler(chunked=False, reserve=1.0, block=32, memory_share=1.0, free_share=0.9, max_seqs=2048),
    NO_BATCHING: Scheduler(memory_share=1.0, max_seqs=1),
}
"""Defaults of three engines, and of a machine that serves one request at a time, first come first served. vLLM V1 gives
blocks on demand and mixes chunks of prompts with decoding; SGLang runs passes of prefill first and admits by an
estimate of what is still to be written (its new-token ratio falls from 0.7 toward 0.1; the middle is assumed);
TensorRT-LLM admits where a request can run to its end (GUARANTEED_NO_EVICT) and takes whole prompts. Of the memory vLLM
fills 0.9 (``gpu_memory_utilization``), SGLang's weights and cache 0.85 (``mem_fraction_static``, which it sets by the
device and its ranks, 0.81 to 0.88); TensorRT-LLM's cache takes 0.9 of what is free (``free_gpu_memory_fraction``). From
their documents; each field may be set apart. SGLang's front end is calibrated on its runs of Llama 3.1 8B in
serving.csv; of others none is known."""


def policy_of(name: str, **settings: Any) -> Scheduler:
    """A policy with what is set apart of it. TrafficError where there is none of that name, or it can't be so."""
    if name not in POLICIES:
        raise TrafficError(f"policy is {brief(name)}; it must be one of {', '.join(POLICIES)}")
    rules = replace(POLICIES[name], **settings)
    if name == NO_BATCHING and rules.max_seqs > 1:
        raise TrafficError(
            f"max_seqs is {rules.max_seqs}; policy {name} serves one request at a time: give another policy"
        )
    return rules
