"""What a hardware YAML may say. Unknown key = error; physics that is missing stays missing (None), never a default."""

from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, Field, model_validator

from entries import schema
from entries.schema import Alias, Id, Name, Source, Text
from hardware_specs.quantity import Quantity, SpecError, within

FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4", "ms-fp9", "ms-fp8", "binary")


def _format(name: str) -> str:
    if name not in FORMATS:
        raise SpecError(f"format {name[:40]!r} is not known: use one of {', '.join(FORMATS)}")
    return name


Format = Annotated[str, AfterValidator(_format)]
Holds = Literal["weights", "state", "activations", "tables"]
Kind = Literal["cpu", "gpu", "card", "npu", "dfx", "smartnic"]
KINDS: tuple[str, ...] = get_args(Kind)
Scheme = Literal["single", "replicas", "tensor", "clusters", "pipelined", "tables", "pinned", "split", "on-path"]

Bytes = Annotated[Quantity, within("B")]
BytesPerS = Annotated[Quantity, within("B/s")]
FlopPerS = Annotated[Quantity, within("FLOP/s")]
FlopPerCycle = Annotated[Quantity, within("FLOP/cycle")]
Hertz = Annotated[Quantity, within("Hz")]
Seconds = Annotated[Quantity, within("s")]
SecondsOrZero = Annotated[Quantity, within("s", positive=False)]
Cycles = Annotated[Quantity, within("cycle", positive=False)]
Watts = Annotated[Quantity, within("W", positive=False)]
WorkingWatts = Annotated[Quantity, within("W")]
Usd = Annotated[Quantity, within("USD", positive=False)]
Count = Annotated[Quantity, within("1", 1.0, 1e9)]
CountOrZero = Annotated[Quantity, within("1", positive=False)]
CardCores = Annotated[Quantity, within("1", 1.0, 512.0)]  # the model deals a layer out core by core
Cores = Annotated[Quantity, within("1", 1.0, 65_536.0)]
Ratio = Annotated[Quantity, within("1", 0.0, 1.0)]


class Record(schema.Record, BaseModel):
    """Base of every spec."""

    order: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of its numbers of which the first never exceeds the second."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for low, high in self.order:
            lower, upper = getattr(self, low), getattr(self, high)
            if lower is not None and upper is not None and lower.si > upper.si:
                raise SpecError(f"`{low}` is {lower.value} and exceeds `{high}`, which is {upper.value}")
        return self


class Entry(Record):
    """What every file of the catalog says."""

    schema_version: Literal[1]
    id: Id
    name: Name
    summary: Text
    sources: dict[str, Source]


class MemoryLevel(Record):
    """One level of memory of a device, or of each of its cores when `per` is core."""

    name: Id
    role: Literal["offchip", "onchip"]
    per: Literal["device", "core"] = "device"
    capacity: Bytes
    bandwidth: BytesPerS | None = None  # reads and writes together, of the whole level (per core where `per` is core)
    latency: Seconds | None = None
    access: Bytes | None = None  # moved for however few are asked
    channel: BytesPerS | None = None  # of one of its channels: the bandwidth over it is how many there are
    banks: Count | None = None  # of a channel
    row_cycle: Seconds | None = None  # of a bank, from one row to the next
    holds: tuple[Holds, ...] = get_args(Holds)


class Power(Record):
    order = (("idle", "max"), ("idle", "loaded"))

    max: WorkingWatts | None = None  # board or package limit
    idle: Watts | None = None
    loaded: WorkingWatts | None = None  # measured on the workload `loaded.where` names
    loaded_on: str | None = None  # kind of network it holds for alone, where it is far from what others would draw


class Clock(Record):
    order = (("min", "max"),)

    max: Hertz
    min: Hertz | None = None


class Cpu(Record):
    """A multicore CPU socket (or several): SIMD rate per core and cycle, sustained clocks, stream bandwidth."""

    cores: Cores
    sockets: Cores | None = None
    threads_per_core: Count | None = None  # its hyper-threads; None: it has none
    clock: Hertz  # sustained with all cores busy on scalar or light vector code
    turbo: Hertz | None = None  # of one core while the others rest
    base_clock: Hertz | None = None  # of all cores while turbo is off
    vector_clock: dict[Format, Hertz] = {}  # sustained all-core clock on the widest units of that format
    flop_per_cycle: dict[Format, FlopPerCycle]  # of one core
    int16_per_cycle: FlopPerCycle | None = None  # 16-bit products summed in 32 bits; None: half as many as of 8 bits
    popcount_bits_per_cycle: Count | None = None  # xor + popcount + add of one core
    core_bandwidth: BytesPerS | None = None  # what one core draws from DRAM
    dram_share: Ratio | None = None  # of the DRAM's peak, what all cores together draw
    misses_in_flight: Count | None = None  # cache lines of a core that are on their way from DRAM at once
    issue_width: Count | None = None  # instructions a cycle
    isa: Literal["x86", "arm"] | None = Field(default=None, exclude=True)  # of older files; nothing follows from it


class Gpu(Record):
    """A throughput accelerator driven by a host that launches operators (GPU, TPU and their like)."""

    kernel_launch: Seconds | None = None  # an empty kernel
    op_overhead: Seconds | None = None  # an operator issued by an eager framework
    achieved_peak: dict[Format, FlopPerS] = {}  # largest matmul rate anyone measured on it
    units: Count | None = None  # SMs, CUs, cores
    generation: Id | None = None  # architecture, by the vendor's name: whose measured constants the operators take
    tile_side: Count | None = None  # least rows a matrix instruction works on; 1 where matmuls run on vector lanes


class Card(Record):
    """A many-core inference card: matrix engine and vector unit per core, shared cache, LPDDR."""

    cores: CardCores
    mac_per_cycle: dict[Format, Count]  # matrix engine of one core
    vector_bits: Count  # vector unit of one core
    clock: Clock


class Npu(Record):
    """A soft vector processor with weights pinned on chip (Brainwave-like)."""

    native_dim: Count  # side of the native matrix tile
    lanes: Count  # multipliers per dot-product engine
    tiles: Count  # matrix-vector tile engines
    mfus: Count  # multifunction units in the chain
    mfu_lanes: Count | None = None  # elements a cycle of a multifunction unit
    clock: Hertz
    weight_bits: Count  # stored bits per weight, shared exponent included
    depths: dict[str, Cycles] = {}  # named pipeline depths
    issue: Literal["decoupled", "in-order"] = "decoupled"  # in-order: chains wait for whole vectors, units for chains
    batch_lanes: Count | None = None  # vectors that share a pass of the weights, on each core
    cores: Count | None = None  # copies of the processor on the part
    block: Count | None = None  # values that share an exponent; None: the native dimension
    vector_elements: Count | None = None  # that its vector register files hold
    queue: Count | None = None  # instructions between the control processor and the units


class Dfx(Record):
    """A transformer core with its own instruction set, one core a card, cards on a ring."""

    cores: Count  # per card
    d: Count  # product-tree width
    l: Count  # lanes
    clock: Hertz
    channels: Count  # off-chip channels the DMA reads at once
    channel_bits: Count
    depths: dict[str, Cycles] = {}  # named operator latencies
    vector_lanes: Count | None = None
    formats: tuple[Literal["fp16", "w8a16", "int8"], ...] = ("fp16",)  # that its matrix unit multiplies


class NicMemory(Record):
    """A memory of a network processor as one of its threads sees it: how long an access takes, how much it brings."""

    order = (("nearest", "farthest"),)

    name: Id
    per: Literal["engine", "island", "chip"]
    capacity: Bytes
    nearest: Cycles  # of an access, engine clock
    farthest: Cycles
    width: Bytes | None = None  # an access moves at most
    ports: Count | None = None  # accesses that each starts a cycle; None: one


class SmartNic(Record):
    """A network processor: many multithreaded engines beside the packet path."""

    engines: Count
    threads_per_engine: Count
    clock: Hertz
    executors: Count  # threads set aside for inference
    ports: Count
    port_rate: BytesPerS
    islands: Count | None = None  # groups of engines that share fast memories
    memories: tuple[NicMemory, ...] = ()
    depths: dict[str, Cycles] = {}  # named cycle costs

    def memory(self, name: str) -> NicMemory | None:
        """The memory of that name, if the part lists it."""
        return next((m for m in self.memories if m.name == name), None)


PAIRED = frozenset(name for record in (Power, Clock, NicMemory) for pair in record.order for name in pair)
"""Fields of which another of the same record bounds what they may be."""


class Fpga(Record):
    """Fabric resources of the part."""

    lut: Count | None = None
    ff: Count | None = None
    alm: Count | None = None
    dsp: Count | None = None
    bram36: Count | None = None
    uram: Count | None = None
    m20k: Count | None = None
    used: dict[Literal["lut", "ff", "alm", "dsp", "bram36", "uram", "m20k"], Ratio] = {}


class Check(Record):
    """A figure the source derives from the same numbers; tests re-derive it."""

    metric: Id
    value: Quantity
    tolerance: float = Field(default=0.01, ge=0, le=1)
    explained: Text | None = None


class HostCpu(Record):
    """Processor of an accelerator that is a whole computer, on the same board: it needs no host."""

    cores: Cores
    clock: Hertz  # sustained on all of them


_HOLDS = {"card": "offchip", "npu": "onchip"}
"""Role of a memory level that a kind holds networks in, where not every one will do."""


class Device(Entry):
    vendor: Name
    kind: Kind
    launched: CountOrZero | None = None  # year
    peak: dict[Format, FlopPerS]  # dense, at the highest sustained clock
    peak_low: dict[Format, FlopPerS] = {}  # at the lowest clock, where the source gives a range
    sparse_peak: dict[Format, FlopPerS] = {}
    memory: tuple[MemoryLevel, ...]
    power: Power
    price: Usd | None = None
    host_link: Id | None = None
    network_link: Id | None = None  # of a whole computer: its own port, over which requests come
    own_cpu: HostCpu | None = None
    cpu: Cpu | None = None
    gpu: Gpu | None = None
    card: Card | None = None
    npu: Npu | None = None
    dfx: Dfx | None = None
    smartnic: SmartNic | None = None
    fpga: Fpga | None = None
    model: dict[str, Quantity] = {}  # model parameters of the family that this part sets for itself
    checks: tuple[Check, ...] = ()
    notes: tuple[Text, ...] = ()

    @property
    def needs_host(self) -> bool:
        """Whether it works in a computer of others: neither a processor nor a computer of its own."""
        return self.cpu is None and self.own_cpu is None

    @property
    def cores(self) -> float:
        """Cores that a memory `per` core is of, or units of a GPU; 1 where its block lists none. [-]"""
        block = self.cpu or self.card
        units = block.cores if block is not None else self.gpu.units if self.gpu is not None else None
        return units.si if units is not None else 1.0

    @property
    def lineage(self) -> str:
        """What parts have in common whose measurements say something of each other: generation, else vendor."""
        return (self.gpu.generation if self.gpu is not None else None) or self.vendor

    @model_validator(mode="after")
    def _family_block(self) -> "Device":
        if getattr(self, self.kind) is None:
            raise SpecError(f"kind is {self.kind!r}, so the block `{self.kind}:` is required")
        extra = [k for k in KINDS if k != self.kind and getattr(self, k) is not None]
        if extra:
            raise SpecError(f"kind is {self.kind!r}, so the block `{extra[0]}:` is not allowed")
        roles = [level.role for level in self.memory]
        role = _HOLDS.get(self.kind)
        if not roles:
            raise SpecError("memory is empty: the level that holds a network is needed")
        if role is not None and role not in roles:
            raise SpecError(f"memory has no level with role {role!r}: a {self.kind} holds its networks in one")
        return self


class Link(Entry):
    bandwidth: BytesPerS  # raw, one direction
    payload: Ratio | None = None  # share of the raw rate left for data after encoding and headers
    latency: SecondsOrZero  # one message, one way, one hop
    per_transfer: SecondsOrZero | None = None  # host cost of starting a transfer
    hops: Count | None = None  # switches on the way, where that is a matter of placement; None: as the system says
    power: Watts | None = None
    price: Usd | None = None

    @property
    def usable(self) -> float:
        """Payload it carries one way. [B/s]"""
        return self.bandwidth.si * (self.payload.si if self.payload else 1.0)


class Nic(Entry):
    ports: Count
    port_rate: BytesPerS
    latency: SecondsOrZero | None = None
    shared_by: Count | None = None  # nodes that share it
    power: Watts | None = None
    price: Usd | None = None


class DeviceGroup(Record):
    device: Id
    count: int = Field(ge=1, le=100_000)
    counts: tuple[int, ...] = ()  # counts a user may choose; empty: only `count`
    tier: Name | None = None  # where it stands in a row of machines


class LinkUse(Record):
    link: Id
    role: Literal["host", "peer", "backhaul", "network", "switch", "scale-out"]  # backhaul: to a third tier
    hops: int = Field(default=1, ge=1, le=64)
    joins: int | None = Field(default=None, ge=2)  # devices that it joins: a node; None: all there are
    compression: float = Field(default=1.0, ge=1.0, le=1000.0)  # bytes of a cut network's results over those that cross
    format: str | None = None  # of those results as they cross; None: as the part before it computes


class System(Entry):
    """Devices, a host and the wires between them."""

    sources: dict[str, Source] = {}
    document: Literal["000", "001", "002", "003", "004"] | None = None
    aliases: tuple[Alias, ...] = ()  # what others call it in their tables
    topology: Literal["single", "switch", "ring", "all-to-all", "network", "pair", "chain", "on-path"]
    devices: tuple[DeviceGroup, ...] = Field(min_length=1)
    host: DeviceGroup | None = None
    links: tuple[LinkUse, ...] = ()
    nic: Id | None = None
    schemes: tuple[Scheme, ...] = ("single",)
    coherent: bool = False  # its devices are sockets of one machine: each loads from the others' memory
    clusters: int = Field(default=1, ge=1, le=64)  # groups with peers of their own that its devices can make
    frame: Bytes | None = None  # of a camera before its first device, encoded; answers go back to there
    extra_power: Watts | None = None  # switch, fans, chassis: drawn at any load
    extra_price: Usd | None = None
    host_power_counted: bool = False  # whether the published power and perf/W include the host
    rival: Id | None = None  # system it was compared with
    checks: tuple[Check, ...] = ()
    notes: tuple[Text, ...] = ()
