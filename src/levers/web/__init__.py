"""The studies of a storage in a browser and over HTTP."""
