"""Requests in, answers out: routes and their schemas, who may ask, pages, metrics, the server itself."""
