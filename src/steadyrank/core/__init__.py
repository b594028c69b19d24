"""The foundation of all other code: the contract, one round, shared arithmetic, settings, and compilation."""
