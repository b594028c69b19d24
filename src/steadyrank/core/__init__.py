"""What everything else stands on: the contract, one round, shared arithmetic, settings, and how code is compiled."""
