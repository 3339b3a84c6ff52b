"""One folder a page: the page and what only it draws."""
