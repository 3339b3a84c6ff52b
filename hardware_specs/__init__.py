"""Chips, links, NICs and systems as data: every number with its unit, its source and its kind of evidence."""

from hardware_specs.catalog import Catalog, default_catalog, read_spec
from hardware_specs.quantity import Quantity, SpecError, parse
from hardware_specs.schema import Device, Link, Nic, System
