"""Pages: widgets, an engine call, charts. No physics."""
