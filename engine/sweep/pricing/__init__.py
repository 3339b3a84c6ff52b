"""How the designs of a space are priced many at a time: tables of what each reads, blocks, compiled loops."""
