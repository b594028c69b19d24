"""How much must be false before an audit finds it: simulated logs whose truth is known."""
