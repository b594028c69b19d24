"""The compiled simulation loop, its replication over seeds, and its results."""
