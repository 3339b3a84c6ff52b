"""Convolutional networks whose layers a file lists line by line: branches, residuals and taps in a short notation.

A line is ``[GROUP] N* LABEL/ chain as NAME``, of which all but the chain may be left out, or has ``cat chain | chain``
or ``add chain | chain`` in place of the chain; ``add!`` has no activation behind the sum. ``again chain`` has the
weights of an earlier line; ``boxes`` takes the best boxes of maps, first those of their scores, then as many of their
places, and ``boxes!`` scores of one class as they are. A line starts where the line before it ended, unless a chain
begins with ``NAME:``. ``N*`` repeats it; a label stands before the names of a line's operators, and ``#`` in it for how
often it was used. A chain is layers from left to right, each a word, before which ``NAME=`` may stand, as before
``add``:

- ``64x3s2`` convolution of 64 filters 3 x 3, stride 2; ``64`` is 1 x 1, ``64x1x7`` 1 high and 7 wide; ``dw3s2`` is
  depthwise, ``9c`` has 9 filters a class. Behind it ``t3`` means 3 frames deep, with its stride in time while there are
  frames to halve, ``t3-`` with none, ``g8`` groups, ``v`` no padding, ``~`` no folded normalisation, ``!`` no
  activation; ``tconv64`` is transposed, its stride and kernel 2. Dilated windows count as others.
- ``max3s2`` and ``avg3s1`` pools, padded by half the window; with ``v`` not padded, with ``c`` rounded up as well.
- ``gap`` mean of all pixels, ``fc1000`` fully connected, ``fc`` to the classes, ``se4`` squeeze and excitation to a
  quarter of the channels, ``sq64`` to 64 of them with a sigmoid at the end, ``norm`` and ``lnorm`` normalisations that
  can't be folded, ``scale`` a product with a constant, ``up2`` pixels repeated, ``to15`` to 15 x 15, ``like-NAME`` to
  the extent of a line, ``shuffle`` channels rearranged, ``half`` one half of the channels, ``lrn``, ``softmax``,
  ``nms1917x91`` suppression of 1917 boxes of 91 classes, ``bits64-64`` binary layers of so many neurons and one to the
  classes; ``@Swish`` changes the activation of what follows.
- ``crop14`` the best boxes of a map, each resampled to 14 x 14, ``crop14x50`` 50 of them, ``align14`` with four samples
  a cell in place of one: what follows runs on each, up to a suppression of boxes.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from model_zoo.families.blocks import OPERATIONS, ROW
from model_zoo.families.family import Params
from model_zoo.families.images import Net, Tensor
from model_zoo.families.mlp import binary_layers
from model_zoo.schema import WorkloadError

_LINE = re.compile(
    r"(?:\[(\S+)\] )?(?:(\d{1,2})\* )?(?:(\S+)/ )?(?:(?:(\w+)=)?(cat|add!?|again|boxes!?) )?(.*?)(?: as (\w+))?"
)
_CONV = re.compile(r"(?:dw(\d+)|(\d+)(c?)(?:x(\d+))?(?:x(\d+))?)(?:s(\d+))?(?:t([1-9]\d?)(-?))?(?:g(\d+))?(v?)(~?)(!?)")
_POOL = re.compile(r"(max|avg)(\d+)(?:s(\d+))?([vc]?)")
_BOXES = re.compile(r"nms(\d+)x(\d+)")
_CROP = re.compile(r"(crop|align)([1-9]\d?)(?:x([1-9]\d{0,4}))?")
_SAMPLES = {"crop": 1, "align": 4}  # of a cell
_BINARY = re.compile(r"bits(\d+(?:-\d+)*)")
_OF_REGIONS = ("RoiAlign", "NonMaxSuppression")  # what they leave is of all regions
_BY_SIZE = re.compile(r"(fc|(?:se|sq|up|to|tconv|pad)(?=\d))(\d*)(!?)")


class LayerList:
    """Walks the lines of `layers`; operators without a name of their own are counted."""

    def __init__(self, params: Params) -> None:
        image, frames = params.whole("image", 1, 16384), params.whole("frames", 1, 4096)
        self.net = Net(params.whole("channels", 1, 65536), image, image, frames)
        self.classes, self.proposals = params.whole("classes", 1, 1_048_576), params.whole("proposals", 1, 65536)
        self.activation, self.count = "Relu", 0
        self.tensors: dict[str, Tensor] = {}
        self.label = self.op_name = self.best = ""
        self.uses: Counter[object] = Counter()

    def lines(self, text: str, x: Tensor) -> Tensor:
        """What so many lines leave; a group is a line where the first does not name one."""
        lines = [line for line in map(str.strip, text.splitlines()) if line]
        if not lines:
            raise WorkloadError("parameter 'layers' lists no layer; at least one is needed")
        for number, line in enumerate(lines, 1):
            self.net.group = self.net.group if lines[0].startswith("[") else f"line{number}"
            x = self.line(line, x)
        return x

    def name(self, kind: str) -> str:
        """Name of the next operator: its own, or its kind and a number."""
        name, self.op_name = self.op_name, ""
        if not name and self.label:
            self.uses[self.label, kind] += 1
            name = f"{kind}{self.uses[self.label, kind]}"
        return f"{self.label}-{name}" if self.label else name or f"{kind}{self.count}"

    def line(self, text: str, x: Tensor) -> Tensor:
        """What a line leaves."""
        match = _LINE.fullmatch(text)
        assert match is not None
        group, times, label, id, merge, body, name = match.groups()
        self.net.group = group or self.net.group
        for _ in range(int(times or 1)):
            self.count += 1
            self.uses[label] += 1
            self.label = (label or "").replace("#", str(self.uses[label]))
            begin = len(self.net.ops)
            ends = [self.chain(part, x) for part in body.split("|")]
            x, merged = ends[0], len(self.net.ops)
            if merge == "cat":
                x = self.net.concat(f"{self.label}-concat" if label else f"concat{self.count}", ends)
            elif merge == "again":
                self.net.ops[begin:] = [replace(op, stored=0.0) for op in self.net.ops[begin:]]
            elif merge in ("boxes", "boxes!"):
                x = self.boxes(ends[: len(ends) // 2], ends[len(ends) // 2 :], bare=merge == "boxes!")
            for at, end in enumerate(ends[1:] if merge in ("add", "add!") else (), 1):
                act = self.activation if at == len(ends) - 1 and merge == "add" else None
                x = self.net.add(id or (f"{self.label}-add" if label else f"add{self.count}-{at}"), x, end, act)
            self.net.repeat(merged, x.regions)
        if name:
            self.tensors[name] = x
        return x

    def boxes(self, scores: Sequence[Tensor], places: Sequence[Tensor], *, bare: bool) -> Tensor:
        """The best of the boxes that maps of scores and of places say; `bare` scores are of one class."""
        sure = [x.name for x in scores]
        if not bare:
            sure = [self.net.vector("score", "Sigmoid", sum(x.elements for x in scores), *sure)]
        count, values = sum(x.elements for x in places) // 4, 4 if bare else 6
        boxes = f"{self.label}-nms" if self.label else "nms"
        self.best = self.net.suppress(boxes, count, self.proposals, *sure, *(x.name for x in places), values=values)
        return Tensor(self.best, values, count, 1)

    def tensor(self, name: str) -> Tensor:
        """What the line of that name left; WorkloadError where there is none."""
        if name not in self.tensors:
            names = ", ".join(self.tensors) or "none"
            raise WorkloadError(f"parameter 'layers' has no line named {name[:40]!r} before it is read; named: {names}")
        return self.tensors[name]

    def chain(self, text: str, x: Tensor) -> Tensor:
        """Layers one after another, from a named tensor where one is given."""
        words = text.split()
        if words and words[0].endswith(":"):
            x = self.tensor(words[0][:-1])
            words = words[1:]
        for word in words:
            self.count += 1
            begin, regions = len(self.net.ops), x.regions
            x = self.layer(word, x)
            if not any(op.kind in _OF_REGIONS for op in self.net.ops[begin:]):
                self.net.repeat(begin, regions)
                x = replace(x, regions=regions)
        return x

    def layer(self, word: str, x: Tensor) -> Tensor:
        """One layer."""
        self.op_name, _, word = word.rpartition("=")
        if word.startswith("@"):
            self.activation = word[1:] if word[1:] in OPERATIONS else _refuse(word)
            return x
        if word in _PLAIN:
            return _PLAIN[word](self.net, self.name(word), x)
        if match := _POOL.fullmatch(word):
            kind, kernel, stride, how = match.groups()
            pool = "MaxPool" if kind == "max" else "AveragePool"
            pad = 0 if how else int(kernel) // 2
            return self.net.pool(
                self.name("pool"), x, int(kernel), int(stride or 1), pad=pad, kind=pool, ceil=how == "c"
            )
        if match := _BOXES.fullmatch(word):
            name = self.net.suppress(self.name("nms"), int(match[1]), self.proposals, x.name, classes=int(match[2]))
            return Tensor(name, 6, self.proposals, 1)
        if match := _CROP.fullmatch(word):
            if not self.best:
                raise WorkloadError(f"parameter 'layers' has {word[:40]!r} before a line that takes the best boxes")
            regions, samples = int(match[3] or self.proposals), _SAMPLES[match[1]]
            return self.net.crop(self.name(match[1]), x, int(match[2]), regions, samples, self.best)
        if match := _BINARY.fullmatch(word):
            binary_layers(self.net, (x.elements, *map(int, match[1].split("-")), self.classes), x.name)
            return Tensor(self.net.ops[-1].name, self.classes, 1, 1)
        if word.startswith("like-"):
            return self.net.resize(self.name("up"), x, self.tensor(word.removeprefix("like-")))
        if match := _BY_SIZE.fullmatch(word):
            return self._by_size(match[1], int(match[2] or self.classes), match[3], x)
        return self._conv(word, x)

    def _by_size(self, kind: str, size: int, bare: str, x: Tensor) -> Tensor:
        name = self.name(kind)
        if kind == "fc":
            return self.net.dense(name, x, size, act=None if bare else self.activation)
        if kind == "se":
            return self.net.excite(name, x, max(1, x.channels // size), outer="HardSwish")
        if kind == "sq":
            return self.net.excite(name, x, size, inner=self.activation)
        if kind == "tconv":
            return self.net.upconv(name, x, size)
        if kind == "pad":
            out = replace(x, name=name, channels=size)
            return replace(out, name=self.net.move(name, "Pad", x.elements, x.name, writes=ROW * out.elements))
        height, width = (size, size) if kind == "to" else (x.height * size, x.width * size)
        return self.net.resize(name, x, Tensor("", 0, height, width))

    def _conv(self, word: str, x: Tensor) -> Tensor:
        match = _CONV.fullmatch(word) or _refuse(word)
        deep, filters, per_class, high, wide, stride, time, lasting, groups, valid, plain, bare = match.groups()
        side, step = int(deep or high or 1), int(stride or 1)
        return self.net.conv(
            self.name("conv"),
            x,
            x.channels if deep else int(filters) * (self.classes if per_class else 1),
            side if wide is None else (side, int(wide)),
            step,
            pad=0 if valid else None,
            groups=x.channels if deep else int(groups or 1),
            act=None if bare else self.activation,
            frames=(int(time or 1), step if time and not lasting and x.frames > 1 else 1),
            normalised=not plain,
        )


def _refuse(word: str):
    raise WorkloadError(f"parameter 'layers' has {word[:40]!r}, which is no layer or activation that is known")


def _half(net: Net, name: str, x: Tensor) -> Tensor:
    part = Tensor(name, ceil(x.channels / 2), x.height, x.width)
    net.move(name, "Split", part.elements, x.name)
    return part


_PLAIN: dict[str, Callable[[Net, str, Tensor], Tensor]] = {
    "gap": lambda net, name, x: net.global_pool(name, x),
    "norm": lambda net, name, x: net.normalise(name, x),
    "lnorm": lambda net, name, x: net.normalise(name, x, kind="LayerNormalization"),
    "lrn": lambda net, name, x: net.lrn(name, x),
    "softmax": lambda net, name, x: net.softmax(name, x),
    "half": _half,
    "scale": lambda net, name, x: replace(x, name=net.vector(name, "Mul", x.elements, x.name)),
    "shuffle": lambda net, name, x: replace(x, name=net.move(name, "Transpose", x.elements, x.name)),
}
