"""A decoder in float32 with a summation order of its own: the twin that the DFX machine's tokens are held against."""

import numpy as np

from engine.devices.dfx.machine import EPSILON, Decoder, rotary


def _norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, rms: bool) -> np.ndarray:
    if rms:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * gamma
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * gamma + beta


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _rotated(x: np.ndarray) -> np.ndarray:
    """Heads [heads, tokens, head] at their positions."""
    half, turns = x.shape[-1] // 2, [rotary(at, x.shape[-1]) for at in range(x.shape[1])]
    cosine, sine = (np.array([t[i] for t in turns], np.float32) for i in (0, 1))
    return x * cosine + np.concatenate([-x[..., half:], x[..., :half]], -1) * sine


def reference_logits(model: Decoder, tokens: list[int]) -> np.ndarray:
    """Logits [tokens, vocab] of every position, in float32 with its own summation order."""
    n, heads = len(tokens), model.heads
    x = model.tokens[tokens] + (0 if model.gated else model.positions[:n])
    mask = np.triu(np.full((n, n), -np.inf, np.float32), 1)
    for layer in model.layers:
        normed = _norm(x, layer.gamma1, layer.beta1, model.gated)
        q, k, v = (
            (normed @ w + b).reshape(n, -1, model.head).transpose(1, 0, 2)
            for w, b in (layer.query, layer.key, layer.value)
        )
        q, k = (_rotated(q), _rotated(k)) if model.gated else (q, k)
        k, v = (t.repeat(heads // len(t), axis=0) for t in (k, v))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) + mask
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = powers / powers.sum(-1, keepdims=True) @ v
        x = x + mixed.transpose(1, 0, 2).reshape(n, -1) @ layer.out[0] + layer.out[1]
        normed = _norm(x, layer.gamma2, layer.beta2, model.gated)
        wide = normed @ layer.fc1[0] + layer.fc1[1]
        wide = wide / (1 + np.exp(-wide)) * (normed @ layer.up[0] + layer.up[1]) if layer.up else _gelu(wide)
        x = x + wide @ layer.fc2[0] + layer.fc2[1]
    return _norm(x, model.gamma, model.beta, model.gated) @ model.tokens.T


def generate(model: Decoder, prompt: list[int], count: int) -> list[int]:
    """The `count` likeliest tokens after a prompt, in float32."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(reference_logits(model, tokens)[-1].argmax()))
    return tokens[len(prompt) :]
