"""Slow twin of the DFX machine's exact arithmetic: what a program computes in float64, written apart from it."""

from collections.abc import Iterable

import numpy as np

from engine.devices.dfx import program as isa
from engine.devices.dfx.machine import EPSILON, Decoder, columns, rotary, shards


class Oracle:
    """Registers of `cards` cores with a one-layer model and a cache of `keys` and `values`, all float64."""

    def __init__(
        self, model: Decoder, registers: dict[int, np.ndarray], keys: np.ndarray, values: np.ndarray, cards: int = 1
    ) -> None:
        self.cores = [_Core(model, registers, keys, values, cards, card) for card in range(cards)]

    def run(self, program: Iterable[isa.Instruction]) -> dict[int, np.ndarray]:
        """Registers of the first core after the program."""
        for instr in program:
            if instr.op == isa.SYNC:
                whole = np.concatenate([core.registers[instr.src1] for core in self.cores])
                for core in self.cores:
                    core.registers[instr.dst] = whole
                continue
            for core in self.cores:
                values = core.work(instr)
                if values is not None:
                    core.registers[instr.dst] = np.atleast_1d(values)
        return self.cores[0].registers


class _Core:
    """One core's registers and its share of the weights and the cache."""

    def __init__(
        self,
        model: Decoder,
        registers: dict[int, np.ndarray],
        keys: np.ndarray,
        values: np.ndarray,
        cards: int,
        card: int,
    ) -> None:
        self.model, self.layer, self.head, self.position = model, model.layers[0], model.head, len(keys)
        self.registers = {r: np.asarray(v, np.float64) for r, v in registers.items()}
        share = columns(model.heads // model.shared, cards, card)
        share = slice(share.start * self.head, share.stop * self.head)
        self.keys, self.values = keys[:, share].astype(np.float64), values[:, share].astype(np.float64)
        self.weights = {
            role: (matrix.astype(np.float64), bias.astype(np.float64))
            for role, (matrix, bias) in shards(model, self.layer, cards, card).items()
        }

    def work(self, instr: isa.Instruction) -> np.ndarray | None:
        """What an instruction writes to its target, if anything."""
        a = self.registers.get(instr.src1, np.zeros(1))
        b = self.registers.get(instr.src2, np.zeros(1))
        gamma, beta = {
            isa.NORM1: (self.layer.gamma1, self.layer.beta1),
            isa.NORM2: (self.layer.gamma2, self.layer.beta2),
        }.get(instr.role, (self.model.gamma, self.model.beta))
        half = int(instr.rows) // 2
        simple = {
            isa.ADD_OP: lambda: a + b,
            isa.SUB_SCALAR: lambda: a - b,
            isa.MUL_OP: lambda: a * b,
            isa.MUL_SCALAR: lambda: a * b,
            isa.LOAD_GAMMA: lambda: gamma,
            isa.LOAD_BETA: lambda: beta,
            isa.LOAD_COSINE: lambda: rotary(self.position, self.head)[0],
            isa.LOAD_SINE: lambda: rotary(self.position, self.head)[1],
            isa.ROTATE: lambda: np.stack([-a.reshape(-1, 2, half)[:, 1], a.reshape(-1, 2, half)[:, 0]], 1).ravel(),
            isa.MUL_HEAD: lambda: np.ravel(a.reshape(-1, len(b)) * b),
            isa.EXP_OP: lambda: np.exp(a),
            isa.ACCUMULATE: a.sum,
            isa.DIVIDE_BY_WIDTH: lambda: a / self.model.width,
            isa.INVERSE_DEVIATION: lambda: 1 / np.sqrt(a / self.model.width + EPSILON),
            isa.RECIPROCAL_OP: lambda: 1 / a,
            isa.SUB_MAXIMUM: lambda: a - a.max(),
            isa.LOAD_TOKEN: lambda: self.model.tokens[0].astype(np.float64),
            isa.LOAD_POSITION: lambda: self.model.positions[self.position].astype(np.float64),
        }
        return simple[instr.op]() if instr.op in simple else self._matrix(instr, a)

    def _matrix(self, instr: isa.Instruction, a: np.ndarray) -> np.ndarray | None:
        query, at = (
            slice(h * self.head, (h + 1) * self.head) for h in (int(instr.arg), int(instr.arg) // self.model.shared)
        )
        if instr.op in isa.PROJECTIONS:
            matrix, bias = self.weights[int(instr.arg)]
            x = a @ matrix + bias
            if instr.op == isa.CONV1D:
                return x
            if instr.op == isa.CONV1D_SILU:
                return x / (1 + np.exp(-x))
            return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        if instr.op == isa.MASKED_MM:
            return self.keys[:, at] @ a[query] / np.sqrt(self.head)
        if instr.op == isa.MM:
            before = self.registers.get(isa.MIXED, np.zeros(0)) if instr.arg else np.zeros(0)
            return np.concatenate([before, a @ self.values[:, at]])
        if instr.op == isa.STORE_KEY:
            self.keys = np.vstack([self.keys, a])
        elif instr.op == isa.STORE_VALUE:
            self.values = np.vstack([self.values, a])
        elif instr.op == isa.MM_ARGMAX:
            logits = a @ self.model.tokens.astype(np.float64).T
            return np.concatenate([[logits.max(), float(logits.argmax())], logits])
        return None
