"""The compiled loop over rounds, its replication over seeds, and what it gives back."""
