"""The store in a folder of JSON files; see `jumar.stores.file.store`."""
