"""Decoders that write token after token: attention of every kind, recurrent layers, experts, and what stands before."""

from model_zoo.families.transformer_decoder.family import build
