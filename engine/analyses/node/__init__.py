"""A node of cards at work: its links and switches, its operators by kind, its tilings."""
