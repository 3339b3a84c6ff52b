"""Operators that run on this host, each with a slow twin in the tests."""
