"""Throughput accelerators that a host drives operator by operator: GPUs, TPUs and their like."""
