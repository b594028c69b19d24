"""What an audit found, for people: one HTML page and its drawings."""
