"""One board as a fold over its events: no clock, no random number, no disk."""
