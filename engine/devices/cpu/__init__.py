"""Multicore CPUs: SIMD by format, caches, streams, and a framework that issues operators."""
