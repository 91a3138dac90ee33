"""A study on a server, with the same verbs as a local one."""

from levers.client.client import Client
from levers.client.study import RemoteStudy

__all__ = ["Client", "RemoteStudy"]
