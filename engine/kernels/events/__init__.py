"""Compiled queueing: counter-based random numbers, exact recursions and binary-heap event engines."""
