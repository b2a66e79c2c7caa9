"""The release format: the manifest, the folder, reading and writing its tables."""
