"""Compiled code: the one decorator, threads, generated vector code, operators, event engines, searches."""
