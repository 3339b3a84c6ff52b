"""Convolutional networks whose layers a file lists line by line: branches, residuals and taps in a short notation.

A line is ``[N*] chain [as NAME]``, ``cat chain | chain`` or ``add chain | chain``; it starts where the line before it
ended, unless a chain begins with ``NAME:``. ``N*`` repeats it. A chain is layers from left to right, each a word:

- ``64x3s2`` convolution of 64 filters 3 x 3, stride 2; ``64`` is 1 x 1, ``64x1x7`` 1 high and 7 wide; ``dw3s2`` is
  depthwise. Behind it ``g8`` means groups, ``v`` no padding, ``!`` no activation.
- ``max3s2`` and ``avg3s1`` pools, padded by half the window; with ``v`` not padded, with ``c`` rounded up as well.
- ``gap`` mean of all pixels, ``fc1000`` fully connected, ``se4`` squeeze and excitation to a quarter of the channels,
  ``norm`` normalisation that can't be folded, ``up2`` pixels repeated, ``shuffle`` channels rearranged, ``half`` one
  half of the channels, ``lrn``, ``softmax``, ``nms1917x91`` suppression of 1917 boxes of
  91 classes; ``@Swish`` changes the activation of what follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import ceil

from model_zoo.families.blocks import OPERATIONS
from model_zoo.families.family import Params
from model_zoo.families.images import Net, Tensor
from model_zoo.schema import WorkloadError

_LINE = re.compile(r"(?:(\d{1,2})\* )?(?:(cat|add) )?(.*?)(?: as (\w+))?")
_CONV = re.compile(r"(?:dw(\d+)|(\d+)(?:x(\d+))?(?:x(\d+))?)(?:s(\d+))?(?:g(\d+))?(v?)(!?)")
_POOL = re.compile(r"(max|avg)(\d+)(?:s(\d+))?([vc]?)")
_BOXES = re.compile(r"nms(\d+)x(\d+)")
_SIZED = re.compile(r"(fc|se|up)(\d+)(!?)")


class _Reader:
    """Walks the lines of a file; names of operators are counted."""

    def __init__(self, net: Net, activation: str) -> None:
        self.net, self.activation, self.count = net, activation, 0
        self.named: dict[str, Tensor] = {}

    def line(self, text: str, x: Tensor) -> Tensor:
        """What a line leaves."""
        match = _LINE.fullmatch(text)
        assert match is not None
        times, joined, body, name = match.groups()
        for _ in range(int(times or 1)):
            self.count += 1
            ends = [self.chain(part, x) for part in body.split("|")]
            x = ends[0]
            if joined == "cat":
                x = self.net.concat(f"concat{self.count}", ends)
            for at, other in enumerate(ends[1:] if joined == "add" else (), 1):
                last = at == len(ends) - 1
                x = self.net.add(f"add{self.count}-{at}", x, other, self.activation if last else None)
        if name:
            self.named[name] = x
        return x

    def chain(self, text: str, x: Tensor) -> Tensor:
        """Layers one after another, from a named tensor where one is given."""
        words = text.split()
        if words and words[0].endswith(":"):
            x = self.named.get(words[0][:-1]) or _refuse(words[0])
            words = words[1:]
        for word in words:
            self.count += 1
            x = self.layer(word, x)
        return x

    def layer(self, word: str, x: Tensor) -> Tensor:
        """One layer."""
        if word[0] == "@":
            self.activation = word[1:] if word[1:] in OPERATIONS else _refuse(word)
            return x
        if word in _PLAIN:
            return _PLAIN[word](self.net, f"{word}{self.count}", x)
        if match := _POOL.fullmatch(word):
            kind, kernel, stride, how = match.groups()
            pool = "MaxPool" if kind == "max" else "AveragePool"
            pad = 0 if how else int(kernel) // 2
            name = f"pool{self.count}"
            return self.net.pool(name, x, int(kernel), int(stride or 1), pad=pad, kind=pool, ceil=how == "c")
        if match := _BOXES.fullmatch(word):
            best = 100
            name = self.net.suppress(f"nms{self.count}", int(match[1]), best, x.name, classes=int(match[2]))
            return Tensor(name, 6, best, 1)
        if match := _SIZED.fullmatch(word):
            kind, size, bare = match[1], int(match[2]), match[3]
            if kind == "fc":
                return self.net.dense(f"fc{self.count}", x, size, act=None if bare else self.activation)
            if kind == "se":
                return self.net.excite(f"se{self.count}", x, max(1, x.channels // size), outer="HardSwish")
            return self.net.resize(f"up{self.count}", x, Tensor("", 0, x.height * size, x.width * size))
        return self._conv(word, x)

    def _conv(self, word: str, x: Tensor) -> Tensor:
        match = _CONV.fullmatch(word) or _refuse(word)
        deep, filters, high, wide, stride, groups, valid, bare = match.groups()
        side = int(deep or high or 1)
        return self.net.conv(
            f"conv{self.count}",
            x,
            x.channels if deep else int(filters),
            side if wide is None else (side, int(wide)),
            int(stride or 1),
            pad=0 if valid else None,
            groups=x.channels if deep else int(groups or 1),
            act=None if bare else self.activation,
        )


def _refuse(word: str):
    raise WorkloadError(f"parameter 'layers' has {word[:40]!r}, which is no layer, name or activation that is known")


def _half(net: Net, name: str, x: Tensor) -> Tensor:
    part = Tensor(name, ceil(x.channels / 2), x.height, x.width)
    net.move(name, "Split", part.elements, x.name)
    return part


def _shuffle(net: Net, name: str, x: Tensor) -> Tensor:
    return replace(x, name=net.move(name, "Transpose", x.elements, x.name))


_PLAIN: dict[str, Callable[[Net, str, Tensor], Tensor]] = {
    "gap": lambda net, name, x: net.global_pool(name, x),
    "norm": lambda net, name, x: net.normalise(name, x),
    "lrn": lambda net, name, x: net.lrn(name, x),
    "softmax": lambda net, name, x: net.softmax(name, x),
    "half": _half,
    "shuffle": _shuffle,
}


def layers(params: Params) -> Net:
    """The network that `layers` lists."""
    image = params.whole("image", 1, 16384)
    net = Net(3, image, image)
    reader, x = _Reader(net, "Relu"), net.input
    lines = [line for line in map(str.strip, params.text("layers").splitlines()) if line]
    for number, line in enumerate(lines, 1):
        net.group = f"line{number}"
        x = reader.line(line, x)
    if not net.ops:
        raise WorkloadError("parameter 'layers' lists no layer; at least one is needed")
    return net
