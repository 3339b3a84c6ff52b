"""Constants, rules, switches and assumptions of the many-core inference card."""

from __future__ import annotations

from engine.devices.common.contract import Parameter, Rule, Switch
from model_zoo.ops import Graph

COMPILED_LENGTHS = (32.0, 64.0, 128.0, 512.0)
"""Padded lengths that networks are compiled for; document 000, section VI-A. [tokens]"""


def _tables(graph: Graph) -> bool:
    return any(op.kind == "EmbeddingBag" for phase in graph.phases for op in phase.ops)


def _text(graph: Graph) -> bool:
    """Requests of varying length, looked up in a vocabulary, answered in one pass."""
    ops = [op for phase in graph.phases for op in phase.ops]
    return not graph.causal and graph.phases[0].length.i > 0 and any(op.kind == "Gather" for op in ops)


def _clips(graph: Graph) -> bool:
    return graph.unit == "clip"


def _detector(graph: Graph) -> bool:
    return any(op.kind == "NonMaxSuppression" for phase in graph.phases for op in phase.ops)


def partitioned(graph: Graph) -> bool:
    """Whether parts of a network may have cores of their own: lookups, or the first of two nets."""
    return _tables(graph) or _detector(graph)


def _pools(graph: Graph) -> bool:
    return any(op.kind == "GlobalAveragePool" for phase in graph.phases for op in phase.ops)


def _adds(graph: Graph) -> bool:
    ops = [op for phase in graph.phases for op in phase.ops]
    return any(op.kind == "Add" for op in ops) and any(op.kind == "Conv" for op in ops)


def _overlaps(graph: Graph) -> bool:
    return _tables(graph) or _text(graph) or _clips(graph)


PARAMETERS = (
    Parameter("kernel_start", 7.4e-6, "s", "calibrated",
              "From the end of one operator to work on the next: command, descriptors, barrier over the cores.",
              claims=("FB-087", "FB-122")),
    Parameter("dispatch", 2e-6, "s", "assumed",
              "Start of an operator that runs on one core and waits for no other core."),
    Parameter("copy_rate", 2.1, "element/cycle", "calibrated",
              "Elements a core's copy loop moves a cycle where runs are short: tiles, transposes, concatenations.",
              claims=("FB-093", "FB-110", "FB-125"), low=1e-3),
    Parameter("pool_cycles", 3.5, "cycle", "calibrated",
              "Cycles an element in the average-pool kernel that is not vectorised: load, convert, add.",
              claims=("FB-076", "FB-078")),
    Parameter("matrix_fill", 1.0, "1", "assumed",
              "Share of its peak a multiplier array reaches on full tiles: all of it, as nothing published says less; "
              "partial tiles are counted apart.", low=0.01, high=1.0),
    Parameter("offchip_efficiency", 0.8, "1", "calibrated",
              "Share of the LPDDR peak that long streams reach; a usual value, kept because the gains of splitting and "
              "of INT8 come out with 0.76 to 0.88.", claims=("FB-073", "FB-086"), low=0.01, high=1.0),
    Parameter("array_depth", 32.0, "element", "assumed", "Depth of the multiplier array's dot products.", low=1.0,
              high=4096.0),
    Parameter("array_filters", 32.0, "element", "assumed",
              "Filters side by side in the array; its rows are what multipliers are left.", low=1.0, high=4096.0),
    Parameter("piece_elements", 1024.0, "element", "assumed", "Smallest piece an element-wise operator is cut into.",
              low=1.0),
    Parameter("table_bits", 6.0, "bit", "assumed",
              "Embedding tables in int8 and int4, half each: the mix is published, its share is not.",
              low=1.0, high=32.0),
    Parameter("row_scale", 4.0, "B", "assumed",
              "Scale and offset that each row of a quantised table carries: two FP16 numbers."),
    Parameter("row_lane_ops", 3.0, "op", "assumed",
              "Lane operations on a table row: widen, then multiply by the row's scale and accumulate in one."),
    Parameter("row_cycles", 4.0, "cycle", "assumed",
              "Address and loop of one looked-up row, in slots beside the lanes' operations."),
    Parameter("outstanding", 16.0, "request", "assumed", "Lines of LPDDR a core asks for before the first arrives.",
              low=1.0, high=1024.0),
    Parameter("row_skew", 0.0, "1", "assumed",
              "Zipf exponent of how often a table's rows are read: the document says nothing, 0 reads all alike and "
              "finds none in a core's memory.", high=4.0),
    Parameter("list_cycles", 24.0, "cycle", "assumed", "Length, clearing and writing of one item's list of lookups."),
    Parameter("list_spread", 0.8, "1", "assumed",
              "Sigma of the log-normal of mean lookups over tables; production tables span two orders of magnitude."),
    Parameter("single_share", 0.2, "1", "assumed",
              "Tables with exactly one lookup: the document says some. The others take the rest of the mean, in lists "
              "that grow without end towards 1.", high=0.9),
    Parameter("user_share", 0.5, "1", "assumed",
              "Tables whose indices belong to the user, the same for every item of a request.", high=1.0),
    Parameter("most_indices", 2.0, "1", "assumed", "Largest number of indices a tensor is made for, over the mean."),
    Parameter("transfer_command", 4e-6, "s", "assumed", "Host time of one transfer command over PCIe.",
              of_host=True),
    Parameter("host_rate", 2e9, "op/s", "assumed", "Scalar work of one host core: what is not supported on the card.",
              low=1.0, of_host=True),
    Parameter("host_start", 40e-6, "s", "assumed", "Leaving the card for an operator on the host and coming back.",
              of_host=True),
    Parameter("density", 0.5, "1", "assumed", "Stored bytes of pruned, compressed weights over dense ones.", high=1.0),
    Parameter("length_spread", 0.5, "1", "assumed",
              "Sigma of the log-normal of sentence lengths: two thirds of them within a factor of 1.65 of the median, "
              "as the document's usual 20 to 70 tokens are. Counts only where sentences are padded."),
    Parameter("nvm_capacity", 256e9, "B", "assumed", "Non-volatile memory behind each card's LPDDR, where it has any."),
    Parameter("nvm_rate", 2.3e9, "B/s", "assumed",
              "Reads of that memory; recalled from Bandana, which the document cites.", low=1e6),
    Parameter("nvm_block", 4096.0, "B", "assumed", "Smallest read of that memory, as Bandana's; a row takes one.",
              low=1.0),
    Parameter("clip_pixels", 27.6e6, "pixel", "assumed",
              "Pixels decoded to sample one clip: a second of 1280 x 720 at 30 frames per second."),
    Parameter("clip_bytes", 0.5e6, "B", "assumed", "That second of video, compressed: 4 Mbit/s."),
    Parameter("decode_ops", 15.0, "op/pixel", "assumed",
              "Work of a software decoder: 133 Mpixel/s on one host core, 145 frames of 720p."),
    Parameter("array_low_j", 1.0e-12, "J", "assumed",
              "Energy of a multiply-add in the low format, its registers and control included: an array full of INT8 "
              "then draws 13 W at 30 TOPS. Range 0.6 to 1.2 pJ, as leakage takes 6 to 1 W."),
    Parameter("array_wide_j", 7.4e-12, "J", "assumed",
              "The same in FP16, so that 4 TFLOPS draw 13 W. Range 5 to 9 pJ."),
    Parameter("lane_j", 3e-12, "J", "assumed", "A lane operation or a cycle of a loop. Range 1 to 10 pJ."),
    Parameter("core_byte_j", 0.8e-12, "J", "assumed",
              "A byte of a core's SRAM of megabytes. Range 0.4 to 2 pJ, recalled of 10 nm."),
    Parameter("cache_byte_j", 8e-12, "J", "assumed",
              "A byte of the shared cache, its ring included. Range 4 to 16 pJ."),
    Parameter("far_byte_j", 40e-12, "J", "assumed",
              "A byte of LPDDR4X, device, wires and controller: 5 pJ a bit. Range 30 to 60 pJ."),
    Parameter("leakage_w", 3.0, "W", "assumed",
              "What a card draws while it does nothing: leakage, clocks, refresh, PCIe. Range 1 to 6 W."),
    Parameter("voltage_slope", 0.6, "1", "assumed",
              "Share of the voltage that goes with the share of the clock that goes; 0.3 to 0.7 of usual curves.",
              high=0.99),
    Parameter("host_idle", 0.35, "1", "assumed",
              "Share of its limit that a host draws while it waits, where its idle power is not published.", high=1.0),
    Parameter("decoder_rate", 5e8, "pixel/s", "assumed", "A hardware decoder beside a card: 4K, 60 frames per second.",
              low=1.0),
)  # fmt: skip

RULES = (
    Rule(
        "A residual sum that an activation follows stays an operator; another one rides in the convolution before it.",
        ("FB-097", "FB-098", "FB-103", "FB-104"),
    ),
    Rule(
        "Conversions between formats ride in element-wise neighbours and are operators at the network's edge.",
        ("FB-099", "FB-100", "FB-106", "FB-107"),
    ),
    Rule(
        "Kernels of 3-D convolutions take nothing along, and a depthwise one has its input transposed first.",
        ("FB-118", "FB-119", "FB-121"),
    ),
)

SWITCHES = (
    Switch("fuse", "Fused operators", "Activations and plain residual sums ride in the operator before them."),
    Switch("fuse-sums", "Residual sums in convolutions",
           "A sum that an activation follows rides in the convolution before it, as Table II's Conv_Add; otherwise it "
           "is an operator.", default=False, applies=_adds),
    Switch("split-ops", "Operators split over cores", "Each operator is cut along its dimensions over all cores."),
    Switch("search-tilings", "Tilings searched",
           "Each product takes the fastest of all its tilings: cut over cores, blocks and loops for two levels of "
           "memory; off: the one its sizes suggest.", default=False),
    Switch("placement", "Explicit placement",
           "List scheduling, longest path first, tables by their lists; otherwise program order and cores in turn."),
    Switch("on-chip-weights", "Weights stay on chip", "Weights that fit in SRAM and cache stay between requests."),
    Switch("large-pools", "Average-pool kernels for large windows", "Vectorised for every size, whole images too.",
           applies=_pools),
    Switch("mixed-tables", "int8 and int4 tables", "Embedding tables in mixed precision; otherwise int8 or wider.",
           applies=_tables),
    Switch("length-aware", "Length-aware balance", "Tables go to cores by expected lookups, not in turn.",
           applies=_tables),
    Switch("single-lookup", "Single-lookup kernel", "Tables with one lookup an item skip the loop over lists.",
           applies=_tables),
    Switch("overlap", "Requests overlap",
           "The next request's lookups, or its work on the host, run while the cards compute this one; off: a card's "
           "cores look up and compute in turn.",
           applies=_overlaps),
    Switch("data-parallel", "Dense part on every card",
           "Cards take turns with the dense parts of requests; off: one card computes them all.",
           applies=_tables),
    Switch("in-flight", "Requests in flight",
           "Cards begin a request before the one before it is answered; off: one request at a time on the node.",
           applies=_tables),
    Switch("peer-to-peer", "Card to card", "Pooled embeddings go through the switch, not through the host's memory.",
           applies=_tables),
    Switch("partial-tensors", "Partial tensors", "Only indices in use are sent, not the largest number.",
           applies=_tables),
    Switch("command-batching", "Command batching", "One transfer per card for all tables, not one for each tensor.",
           applies=_tables),
    Switch("broadcast-on-card", "Broadcast on the card",
           "What belongs to the user is sent once and repeated for its items on the card.", applies=_tables),
    Switch("one-broadcast", "One large broadcast", "One operator for all tables, not one for each.", applies=_tables),
    Switch("fp16-features", "FP16 dense features", "Dense features cross network and PCIe in FP16, not FP32.",
           applies=_tables),
    Switch("static-shapes", "Sentences are padded",
           "Networks are compiled for fixed lengths; shorter sentences are padded. Off: every length has its network.",
           default=False, applies=_text),
    Switch("padding-buckets", "Several padded lengths",
           "Where sentences are padded: to 32, 64, 128 or 512 tokens, whichever is next; off: all to 512.",
           applies=_text),
    Switch("like-lengths", "Batches of like lengths",
           "Where sentences are padded: those of one length class are batched; off: whoever comes next.",
           applies=_text),
    Switch("host-embedding", "Embedding on the host",
           "Token lookups run on the host, and the card is sent vectors instead of indices.", default=False,
           applies=_text),
    Switch("two-nets", "Two nets, pipelined",
           "A network with host work inside becomes two nets with cores of their own, for different requests at once.",
           default=False, applies=_detector),
    Switch("host-decode", "Video decoded on the host",
           "Host cores decode every clip; off: another server does, and frames cross the network.", default=False,
           applies=_clips),
    Switch("hardware-decode", "Decoder beside the card",
           "Section VIII's what-if: compressed video goes to a decoder next to each card.", default=False,
           applies=_clips),
    Switch("shard-fc", "Dense layers sharded over cards",
           "Section VIII's what-if: each card keeps its share of every dense layer, so that weights stay on chip.",
           default=False, applies=_tables),
    Switch("nvm-tier", "Memory tier behind LPDDR",
           "Section VIII's what-if: tables that LPDDR can't hold lie in non-volatile memory.", default=False,
           applies=_tables),
    Switch("nvm-locality", "Rarely read tables go there",
           "Where there is that tier, or the host holds tables: those of the fewest lookups go there; off: any.",
           applies=_tables),
    Switch("pruned", "Pruned weights",
           "Section VIII's what-if: weights are stored compressed; arithmetic stays dense.", default=False),
    Switch("dynamic-ranges", "Dynamic quantisation",
           "Section VIII's what-if: ranges are found at run time, so products emit wide values that are searched and "
           "converted; counts only in low formats.", default=False),
    Switch("range-units", "Range-finding hardware",
           "Where ranges are found at run time: units collect them as results are written, which saves the search."),
)  # fmt: skip

ASSUMPTIONS = (
    "An operator too small for a piece on every core runs on one where that is sooner: one core waits for no other.",
    "An operator's pieces run on cores at once; cache and LPDDR, at once, serve one operator after the other.",
    "A core's port moves as many bytes per cycle as its vector unit is wide; its multipliers read SRAM beside it.",
    "Products are cut over cores, and into blocks that fill half of a core's SRAM, so that the fewest bytes move.",
    "Weights that stay on chip fill the cores' memories first, then the cache.",
    "Lines of LPDDR are dealt to channels in turn, so each line that a looked-up row touches opens a row of a bank.",
    "Operators a card lacks run on the host, one core of it.",
)
