"""Charts of studies: what they say, and how they look on a page and in a file."""
