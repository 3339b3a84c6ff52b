"""The Machine page's texts; the page puts values where braces are."""

# page.py
MEMORY_ALT = "Memory levels with capacity, bandwidth and the bytes that lie there"
NUMBERS_ALT = "{title}: each number with what stands behind it"
LINKS_ALT = "Links and their use"

# facts.py
