"""Show the results of an audit as one HTML page with figures."""
