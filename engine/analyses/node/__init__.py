"""A node of cards at work: its links and switches, its latency along the load, its bars over time."""
