"""Files of requests as they were recorded: when they came, how long they were, and what prompts had in common."""
