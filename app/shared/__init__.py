"""What pages share: the link, the one cache, formats, tables, words."""
