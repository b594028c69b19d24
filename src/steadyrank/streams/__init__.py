"""Kafka topics and Redis streams as input of a running service, and as output for its changes."""
