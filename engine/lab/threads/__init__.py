"""How compiled work is shared out between threads."""
