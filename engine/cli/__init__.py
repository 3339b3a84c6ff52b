"""``python -m engine``: one file a command."""
