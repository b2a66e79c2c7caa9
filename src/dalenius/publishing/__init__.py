"""The main job: a table in, a release out."""
