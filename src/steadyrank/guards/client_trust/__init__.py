"""Find clients whose clicks share a taste that few others have."""
