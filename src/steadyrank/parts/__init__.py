"""What single learners are made of: the arithmetic of a paper, apart from the learner that calls it."""
