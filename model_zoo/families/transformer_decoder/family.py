"""Decoder, from GPT-2 to hybrids of linear attention and hundreds of experts: declared facts in, exact counts out."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from model_zoo.families.family import Params
from model_zoo.families.transformer_decoder.attention import attention, cache_size
from model_zoo.families.transformer_decoder.block import NORM, TOKENS, Block, View
from model_zoo.families.transformer_decoder.feed_forward import feed_forward
from model_zoo.families.transformer_decoder.recurrent import mix, state
from model_zoo.families.transformer_decoder.shape import CACHED, Layer, Shape, read_shape
from model_zoo.families.transformer_decoder.tower import Encoder, cross_attention, image_tower, source_encoder
from model_zoo.ops import ONE, Dim, Graph, Linear, Op, Phase, Sum, dim
from model_zoo.schema import Workload, WorkloadError

LAST = dim(1, "b")  # the one token a request's logits are needed for
FIRST = View(dim(1, "b"), ONE, ONE)  # the token that begins what answers an encoder
DRAFT = {"layers": True, "hidden": True, "heads": True, "kv_heads": False, "head_dim": False, "ffn": False}
"""Sizes of a draft network, and whether each is needed; the others have a usual one."""
_DENSE: dict[str, Any] = {
    **dict.fromkeys(("v_dim", "experts", "top_k", "dense_layers", "dense_ffn", "shared_ffn", "kv_rank", "q_rank"), 0),
    **dict.fromkeys(("query_gate", "sinks", "post_norm", "head_norm"), "no"),
    **{"mixers": "f", "feeds": "", "block": "sequential", "lm_head": "tied"},
}
"""What a draft network is, whatever the network beside it is."""
QUANTISED = {
    "all": lambda op: True,
    "linear": lambda op: op.stored and op.group not in ("lm-head", "vision"),
    "feed-forward": lambda op: op.stored and op.group == "feed-forward",
    "experts": lambda op: op.attribute("experts") > 0,
}
"""Which operators a checkpoint in a narrow format holds in it; the others stay wide."""


def _embedding(shape: Shape, view: View) -> list[Op]:
    block = Block(shape.hidden, shape.rms, view, "embedding")
    words = block.gather("token-embedding", shape.vocab, shape.hidden)
    if shape.positions:
        places = block.gather("position-embedding", shape.positions, shape.hidden)
        block.vector("add-embedding", "Add", shape.hidden, words, places, operands=2)
    return block.ops


def _layer(shape: Shape, layer: Layer, view: View, entry: str, *, absorb: bool, encoder: Encoder | None) -> Block:
    """Operators of one layer, norms before each half and, where the network has them, after."""
    block = Block(shape.hidden, shape.rms, view)
    after = shape.says("post_norm")
    stream, last = entry, entry
    if layer.mixer:
        last = block.norm("norm1", stream)
        if layer.mixer in CACHED:
            branch = attention(shape, layer, block, last, absorb=absorb)
        else:
            branch = mix(shape, layer, block, last)
        if shape.parallel and layer.feed:  # both halves read the same normalised input and are added together
            block.residual("residual", branch, feed_forward(shape, layer, block, last), stream)
            return block
        branch = block.norm("norm1-after", branch) if after else branch
        stream = block.residual("residual1", branch, stream)
    if encoder:
        norm = block.norm("norm-cross", stream)
        branch = cross_attention(shape, encoder, block, norm, f"cross-kv{shape.tags[layer]}")
        stream = block.residual("residual-cross", branch, stream)
    if layer.feed:
        branch = feed_forward(shape, layer, block, block.norm("norm2", stream))
        branch = block.norm("norm2-after", branch) if after else branch
        block.residual("residual2", branch, stream)
    return block


def _ops(
    shape: Shape, view: View, *, absorb: bool, before: tuple[Op, ...], encoder: Encoder | None, logits: Dim = LAST
) -> tuple[Op, ...]:
    """A pass; ``logits`` are the tokens whose logits it makes."""
    ops = [*before, *_embedding(shape, view)]
    for layer, count in shape.layers.items():
        block = _layer(shape, layer, view, ops[-1].name, absorb=absorb, encoder=encoder)
        ops += block.copies(shape.tags[layer], count)
    return _with_head(shape, view, ops, logits)


def _with_head(shape: Shape, view: View, ops: list[Op], logits: Dim) -> tuple[Op, ...]:
    """Operators and what makes logits of what they leave, each in the format that the checkpoint holds it in."""
    head = Block(shape.hidden, shape.rms, replace(view, tokens=logits), "lm-head")
    norm = head.norm("final-norm", ops[-1].name)
    tied: dict[str, Any] = {"stored": 0.0} if shape.lm_head == "tied" else {}
    scores = head.linear("lm-head", shape.hidden, shape.vocab, norm, bias=shape.lm_head == "own-bias", **tied)
    head.vector("argmax", "ArgMax", shape.vocab, scores, writes=logits)
    low = QUANTISED[shape.p.word("quantised", tuple(QUANTISED))]
    pass_ops = (*ops, *head.ops)
    return _alone(op if low(op) else replace(op, quantisable=False) for op in pass_ops)


def _guessing(shape: Shape) -> tuple[int, float]:
    """Tokens guessed before each pass, and tokens that a pass then makes: its own and the guesses before the first that
    does not hold, each of which holds alike. [-]"""
    p = shape.p
    guesses = p.whole("guesses", 0, 16) if p.has("guesses") else 0
    if not guesses:
        return 0, 1.0
    if not p.whole("guess_layers", 0, 4096) and not p.has("draft_layers"):
        lacking = "no layer that guesses (guess_layers) and no draft network (draft_layers)"
        raise WorkloadError(f"parameter 'guesses' is {guesses}; the network has {lacking}")
    if not p.has("acceptance"):
        raise WorkloadError(f"parameter 'guesses' is {guesses}; 'acceptance' has to say how likely a guess holds")
    acceptance = p.number("acceptance", 0.0, 1.0)
    return guesses, sum(acceptance**i for i in range(guesses + 1))


def _guess(shape: Shape, view: View, *, absorb: bool) -> tuple[Op, ...]:
    """A pass of the layer that guesses: the token before and what the network left of it, joined, and a layer like the
    last one; embedding and head are the network's own."""
    ops, (layer, _) = _embedding(shape, view), list(shape.layers.items())[-1]
    join = Block(shape.hidden, shape.rms, view, NORM)
    join.norm("guess-norm-token", ops[-1].name)
    join.norm("guess-norm-left")
    join.group = "guess"
    entry = join.linear("guess-join", 2 * shape.hidden, shape.hidden, "guess-norm-token", "guess-norm-left")
    block = _layer(shape, layer, view, entry, absorb=absorb, encoder=None)
    return _with_head(shape, view, [*ops, *join.ops, *block.copies("-guess", 1)], LAST)


def draft_params(network: Workload, draft: Workload) -> dict[str, int]:
    """Parameters with which a decoder has another one as its draft network: that one's sizes.

    WorkloadError where that is no dense decoder of the same vocabulary.
    """
    if network.family != "transformer-decoder":
        raise WorkloadError(f"draft is {draft.id!r}; {network.name} makes no tokens that another network could guess")
    sizes = {name: number.value for name, number in draft.params.items()}
    values = {f"draft_{name}": value for name in DRAFT if isinstance(value := sizes.get(name, 0), int) and value}
    needed = {f"draft_{name}" for name, is_needed in DRAFT.items() if is_needed or name in sizes}
    dense = draft.family == network.family and not sizes.keys() & {"experts", "kv_rank", "mixers"}
    if not dense or sizes.get("vocab") != network.params["vocab"].value or needed - values.keys():
        raise WorkloadError(f"draft is {draft.id!r}; a dense decoder of {network.name}'s vocabulary is needed")
    return values


def _draft(shape: Shape) -> Shape | None:
    """A network of its own that guesses, dense and with its own cache; what is not said of it is as in the network."""
    if not shape.p.has("draft_layers"):
        return None
    given = [name for name, needed in DRAFT.items() if needed or shape.p.has(f"draft_{name}")]
    sizes = {name: shape.p.whole(f"draft_{name}") for name in given}
    return read_shape(shape.p.but(_DENSE | dict.fromkeys(DRAFT, 0) | sizes))


def _draft_ops(draft: Shape, *, absorb: bool) -> tuple[Op, ...]:
    ops = _ops(draft, View(), absorb=absorb, before=(), encoder=None)
    return tuple(
        replace(op, name=f"draft-{op.name}", inputs=tuple(f"draft-{name}" for name in op.inputs)) for op in ops
    )


def _alone(ops: Iterable[Op]) -> tuple[Op, ...]:
    """Operators of one pass; what another pass has left for them is no input of this one."""
    pass_ops = tuple(ops)
    names = {op.name for op in pass_ops}
    return tuple(replace(op, inputs=tuple(name for name in op.inputs if name in names)) for op in pass_ops)


def _state(shape: Shape, encoder: Encoder | None) -> Sum:
    """What a sequence keeps: caches by how far back their layers look, and states that do not grow."""
    result: dict[tuple[int, float], float] = {}
    guesses, draft = _guessing(shape)[0], _draft(shape)
    guessing = {list(shape.layers)[-1]: min(guesses, 1)} if draft is None else {}
    layers = [(shape, layer, count + guessing.get(layer, 0)) for layer, count in shape.layers.items()]
    layers += [(draft, layer, count) for layer, count in draft.layers.items()] if draft and guesses else []
    for of, layer, copies in layers:
        states = [cache_size(of, layer)] if layer.mixer in CACHED else [state(of, layer)] if layer.mixer else []
        if encoder:
            states.append(dim(2.0 * encoder.heads * shape.head, "b") * encoder.seen)
        for part in states:
            result[part.c, part.cap] = result.get((part.c, part.cap), 0.0) + part.coef * copies
    return Sum(tuple(Dim(coef, 1, 0, c, cap) for (c, cap), coef in result.items()))


def _phases(shape: Shape, encoder: Encoder | None) -> tuple[tuple[Phase, ...], int]:
    """Passes of a request, and the tokens that images put before its own."""
    tower, images = image_tower(shape)
    guesses, tokens_per_pass = _guessing(shape)
    once, passes = Linear(1), Linear(-1 / tokens_per_pass, 0, 1 / tokens_per_pass)
    if encoder is None or encoder.tokens:
        before = (*tower, *(source_encoder(shape, encoder) if encoder else ()))
        fill = _ops(shape, View(), absorb=False, before=before, encoder=encoder)
        logits = TOKENS if guesses else LAST
        step = _ops(shape, View(), absorb=True, before=(), encoder=encoder, logits=logits)
        length, context = Linear(images, 1, 0), Linear(images + guesses, 1, 0.5)
        prefill = Phase("prefill", fill, length=length, context=length, repeat=once)
        decode = Phase("decode", step, length=Linear(1 + guesses), context=context, repeat=passes)
        if not guesses:
            return (prefill, decode), images
        # a guess of a layer reads the tokens that the pass before it checked, the next ones the one before: 2 each in
        # the mean; a draft network has read its own guesses before
        draft = _draft(shape)
        first, later = (
            _guess(shape, View(), absorb=absorb) if draft is None else _draft_ops(draft, absorb=absorb)
            for absorb in (False, True)
        )
        often = Linear(-guesses / tokens_per_pass, 0, guesses / tokens_per_pass)
        return (
            prefill,
            Phase("guess-prefill", first, length=length, context=length, repeat=once),
            decode,
            Phase("guess", later, length=Linear(2 if draft is None else 1), context=context, repeat=often),
        ), images
    if guesses:
        raise WorkloadError(f"parameter 'guesses' is {guesses}; it is modelled for networks without an encoder")
    # the encoder reads what enters; the decoder begins with a token of its own and attends to both
    first = _ops(shape, FIRST, absorb=True, before=tuple(source_encoder(shape, encoder)), encoder=encoder)
    inputs = Linear(0, 1, 0)
    step = _ops(shape, View(), absorb=True, before=(), encoder=encoder)
    cross = _alone(op for op in step if op.group == "cross-attention")
    main = _alone(op for op in step if op.group != "cross-attention")
    return (
        Phase("prefill", first, length=inputs, context=inputs, repeat=once),
        Phase("decode", main, context=Linear(0, 0, 0.5), repeat=passes),
        Phase("decode-cross", cross, context=inputs, repeat=passes),
    ), 0


def build(params: Params) -> Graph:
    """Prefill reads I tokens and yields the first; each of O - 1 passes more reads one and yields one.

    The key and value of every token stay in the cache, as far as its layer looks back. The LM head and the norm before
    it run for the last token only. In a mixture of experts a pass reads the experts its tokens chose: no two tokens
    share one until all are in use (an upper bound, exact for one token and for many). Layers of one kind are counted
    together, one kind after the other. Where tokens are guessed ahead, a pass checks them all: (O - 1) / E passes of
    1 + g tokens and as many times g of the guessing layer or the draft network, E the mean of tokens that a pass makes.
    """
    shape = read_shape(params)
    encoder = Encoder(shape) if shape.p.whole("encoder_layers", 0, 4096) else None
    phases, _ = _phases(shape, encoder)
    return Graph(
        phases=phases,
        unit="token",
        units_per_request=Linear(0, 0, 1),
        causal=True,
        state_elements=_state(shape, encoder),
        input_elements=TOKENS,
        output_elements=TOKENS,
        input_indices=TOKENS,
        output_indices=TOKENS,
        positions=shape.positions,
    )
