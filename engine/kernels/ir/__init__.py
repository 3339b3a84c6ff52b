"""All that emits LLVM: what numba has no words for, as generators of vector code."""
