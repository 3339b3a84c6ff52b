"""What stands before a decoder: an encoder of images whose tokens it reads, or one that its layers attend to."""

from typing import Any

from model_zoo.importers.huggingface.decoder import WIDEST, Fields
from model_zoo.importers.huggingface.keys import NAMES, Keys

_SIDE = 448  # pixels of an image where the network takes any size and the configuration names none


def encoder(keys: Keys, fields: Fields) -> None:
    """Parameters of the encoder of a sequence-to-sequence network, added to what was found."""
    layers = keys.whole("encoder_layers", "num_layers", "num_hidden_layers", low=1, high=4096)
    fields["encoder_layers"] = (layers, keys.last)
    for name, key in (("encoder_heads", "encoder_attention_heads"), ("encoder_ffn", "encoder_ffn_dim")):
        if value := keys.whole(key, default=0, low=1, high=WIDEST):
            fields[name] = (value, key)
    if mels := keys.whole("num_mel_bins", default=0, low=1, high=65536):
        fields["encoder_channels"] = (mels, "num_mel_bins")
        fields["encoder_tokens"] = (keys.whole("max_source_positions", low=1, high=2**24), "max_source_positions")


def _side(value: Any, vision: Keys) -> int:
    """Pixels of a side; of a pair the larger."""
    if isinstance(value, list) and value and all(isinstance(entry, int) for entry in value):
        value = max(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65536:
        raise vision.refuse(value, "a whole number from 1 to 65536, or a pair of them, is allowed")
    return value


def images(outside: Keys, text: Keys, fields: Fields) -> list[str]:
    """Parameters of the encoder of images, added to what was found; notes on what is assumed. Nothing without one."""
    vision = outside.under("vision_config", "vision_encoder", "vision_tower_config", "visual")
    names = NAMES["vision"]
    if vision is None or not (layers := vision.whole(*names["layers"], default=0, high=4096)):
        return []
    hidden = vision.whole(*names["width"], default=1024, low=1, high=WIDEST)
    outer = 0
    if "embed_dim" in vision and "hidden_size" in vision:  # Qwen2-VL: hidden_size is the decoder's
        hidden, outer = (vision.whole(name, low=1, high=WIDEST) for name in ("embed_dim", "hidden_size"))
    vision.whole("out_hidden_size", default=outer, high=WIDEST)
    heads = vision.whole(*names["heads"], default=16, low=1, high=65536)
    if hidden % heads:
        raise vision.refuse(heads, f"it must divide the {hidden} of the vision tower's width")
    ratio = vision.number("mlp_ratio", default=4.0, low=0.01, high=64)
    ffn = vision.whole(*names["ffn"], default=int(ratio * hidden), low=1, high=WIDEST)
    patch = _side(vision.raw("patch_size", "spatial_patch_size") or 14, vision)
    size = vision.raw("image_size")
    size = outside.raw("force_image_size") if outside.data.get("force_image_size") else size
    dynamic = size is None or outside.text("model_type") in ("pixtral", "mistral3")
    side = _SIDE if dynamic else _side(size, vision)
    grid = max(1, side // patch)
    patches = grid * grid
    frames = vision.whole("temporal_patch_size", default=1, low=1, high=64)
    merge = vision.whole("spatial_merge_size", default=0, low=1, high=64)
    merge = merge or outside.whole("spatial_merge_size", "scale_factor", default=0, low=1, high=64)
    shuffle = vision.number("pixel_shuffle_ratio", default=0.0, low=0, high=1)
    shuffle = shuffle or outside.number("downsample_ratio", default=0.0, low=0, high=1)
    per_token = merge * merge if merge else round(1 / shuffle**2) if shuffle else 1
    kernel = vision.raw("merge_kernel_size")
    if isinstance(kernel, list) and len(kernel) == 2 and all(isinstance(entry, int) and entry > 0 for entry in kernel):
        per_token = kernel[0] * kernel[1]
    image_tokens = outside.whole("mm_tokens_per_image", default=0, low=1, high=2**24)
    tokens = image_tokens or -(-patches // per_token)
    entering = hidden if image_tokens else hidden * per_token
    middle = outer or vision.whole("projector_output_dim", default=0, high=WIDEST) or fields["hidden"][0]
    middle = entering if merge and not outer and "out_hidden_size" in vision else middle
    two = not image_tokens and outside.text("model_type") != "paligemma"
    where = vision.prefix.rstrip(".")
    for name, value in (
        ("tower_layers", layers),
        ("tower_hidden", hidden),
        ("tower_heads", heads),
        ("tower_ffn", ffn),
        ("tower_gated", "yes" if vision.text("hidden_act", default="gelu") == "silu" else "no"),
        ("tower_patch", 3 * patch * patch * frames),
        ("tower_patches", patches),
        ("projector", [entering, middle] if two else [entering]),
        ("image_tokens", tokens),
    ):
        fields[name] = (value, where)
    full = vision.entries("fullatt_block_indexes")
    if full:
        window = _side(vision.raw("window_size") or 112, vision) // patch
        fields["tower_window"] = (min(window * window, patches), f"{where}.window_size")
        fields["tower_full_layers"] = (min(len(full), layers), f"{where}.fullatt_block_indexes")
    text.raw("vision_config")
    if dynamic:
        return [f"The network takes images of any size; one of {side} by {side} pixels, {tokens} tokens, is counted."]
    return [f"A request has one image of {side} by {side} pixels, {tokens} tokens, before its words."]
