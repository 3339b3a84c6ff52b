"""Constants, switches and assumptions of the many-core inference card."""

from __future__ import annotations

from engine.devices.family import Parameter, Switch

__all__ = ["ASSUMPTIONS", "PARAMETERS", "SWITCHES"]

PARAMETERS = (
    Parameter("kernel_start", 7.4e-6, "s", "calibrated",
              "From the end of one operator to work on the next: command, descriptors, barrier over the cores.",
              claims=("FB-087", "FB-122")),
    Parameter("dispatch", 2e-6, "s", "assumed",
              "Start of an operator that runs on one core and waits for no other core."),
    Parameter("copy_rate", 2.1, "element/cycle", "calibrated",
              "Elements a core's copy loop moves a cycle where runs are short: tiles, transposes, concatenations.",
              claims=("FB-093", "FB-110", "FB-125")),
    Parameter("pool_cycles", 3.5, "cycle", "calibrated",
              "Cycles an element in the average-pool kernel that is not vectorised: load, convert, add.",
              claims=("FB-076",)),
    Parameter("matrix_fill", 0.95, "1", "assumed",
              "Share of its peak a multiplier array reaches on full tiles; partial tiles are counted apart."),
    Parameter("offchip_efficiency", 0.8, "1", "assumed", "Share of the LPDDR peak that long streams reach."),
    Parameter("piece_elements", 1024.0, "element", "assumed", "Smallest piece an element-wise operator is cut into."),
    Parameter("table_bits", 6.0, "bit", "assumed",
              "Embedding tables in int8 and int4, half each: the mix is published, its share is not."),
    Parameter("row_lane_ops", 3.0, "op", "assumed", "Lane operations on a table row: widen, scale, accumulate."),
    Parameter("row_cycles", 4.0, "cycle", "assumed", "Address and loop of one looked-up row."),
    Parameter("list_cycles", 24.0, "cycle", "assumed", "Length, clearing and writing of one item's list of lookups."),
    Parameter("list_spread", 0.8, "1", "assumed",
              "Sigma of the log-normal of mean lookups over tables; production tables span two orders of magnitude."),
    Parameter("single_share", 0.2, "1", "assumed", "Tables with exactly one lookup: the document says some."),
    Parameter("user_share", 0.5, "1", "assumed",
              "Tables whose indices belong to the user, the same for every item of a request."),
    Parameter("most_indices", 2.0, "1", "assumed", "Largest number of indices a tensor is made for, over the mean."),
    Parameter("transfer_command", 4e-6, "s", "assumed", "Host time of one transfer command over PCIe."),
    Parameter("host_rate", 2e9, "op/s", "assumed", "Scalar work of one host core: what is not supported on the card."),
    Parameter("host_start", 40e-6, "s", "assumed", "Leaving the card for an operator on the host and coming back."),
    Parameter("density", 0.5, "1", "assumed", "Stored bytes of pruned, compressed weights over dense ones."),
)  # fmt: skip

SWITCHES = (
    Switch("fuse", "Fused operators", "Activations and plain residual sums ride in the operator before them."),
    Switch("split-ops", "Operators split over cores", "Each operator is cut along its dimensions over all cores."),
    Switch("placement", "Explicit placement",
           "List scheduling, longest path first; otherwise program order and cores in turn."),
    Switch("on-chip-weights", "Weights stay on chip", "Weights that fit in SRAM and cache stay between requests."),
    Switch("large-pools", "Average-pool kernels for large windows", "Vectorised for every size, whole images too."),
    Switch("mixed-tables", "int8 and int4 tables", "Embedding tables in mixed precision; otherwise int8 or wider."),
    Switch("length-aware", "Length-aware balance", "Tables go to cores by expected lookups, not in turn."),
    Switch("single-lookup", "Single-lookup kernel", "Tables with one lookup an item skip the loop over lists."),
    Switch("overlap", "Lookups overlap dense work",
           "The next request's lookups run on some cores while others compute this one."),
    Switch("peer-to-peer", "Card to card", "Pooled embeddings go through the switch, not through the host's memory."),
    Switch("partial-tensors", "Partial tensors", "Only indices in use are sent, not the largest number."),
    Switch("command-batching", "Command batching", "One transfer a card for all tables, not one for each tensor."),
    Switch("broadcast-on-card", "Broadcast on the card",
           "What belongs to the user is sent once and repeated for its items on the card."),
    Switch("one-broadcast", "One large broadcast", "One operator for all tables, not one for each."),
    Switch("fp16-features", "FP16 dense features", "Dense features cross network and PCIe in FP16, not FP32."),
    Switch("shard-fc", "Dense layers sharded over cards",
           "Section VIII's what-if: each card keeps its share of every dense layer, so that weights stay on chip.",
           default=False),
    Switch("pruned", "Pruned weights",
           "Section VIII's what-if: weights are stored compressed; arithmetic stays dense.", default=False),
)  # fmt: skip

ASSUMPTIONS = (
    "An operator's pieces run on cores at once; LPDDR serves one operator after the other.",
    "A core's port moves as many bytes a cycle as its vector unit is wide.",
    "The multiplier array is 32 deep and 32 filters wide, whatever its number of multipliers.",
    "Operators a card lacks run on the host, one core of it.",
)
