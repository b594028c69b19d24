"""Which clients click unlike all others."""
