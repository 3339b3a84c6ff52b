"""ONNX files as workloads: read in a bounded way, shapes inferred, operators counted."""
