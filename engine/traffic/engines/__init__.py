"""Serving engines of language models: calendars of passes, pools of them, and what they are asked for."""
