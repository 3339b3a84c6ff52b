"""Networks as data: an op vocabulary with exact counts, families that build graphs, and the catalog of workloads."""

from model_zoo.catalog import Zoo, default_zoo, read_workload
from model_zoo.families import FAMILIES, NetworkFamily
from model_zoo.ops import CONTRACTIONS, KINDS, Dim, Graph, Linear, Op, Phase, dim
from model_zoo.schema import Check, Number, Request, Workload, WorkloadError
