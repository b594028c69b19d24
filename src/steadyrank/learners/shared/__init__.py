"""What several learners are made of."""
