"""A study on a server, with the same verbs as a local one."""
