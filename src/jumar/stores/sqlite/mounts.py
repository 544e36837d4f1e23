"""The old place of `jumar.database.mounts`."""

from jumar.database.mounts import NETWORK, filesystem_of, network_filesystem

__all__ = ["NETWORK", "filesystem_of", "network_filesystem"]
