"""Checks a user runs on a machine: is fusion as fast as it should be here, is this GPU right."""
