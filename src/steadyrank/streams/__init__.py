"""Topics of Kafka and streams of Redis: what comes in goes to a running service, what changes there goes out."""
