"""Names become things: systems, devices and graphs with every what-if applied, and what may be picked beside them."""
