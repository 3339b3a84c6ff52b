"""How a serving engine carries a language model's load."""
