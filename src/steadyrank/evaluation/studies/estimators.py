"""What an attack does to an estimate."""

from ..lab.cells import Study, Trial

STUDY = Study(
    place=9,
    name="estimators",
    title="Bias and error of estimates under flips in front, spread and in bursts",
    paper="the calibrated mean of medians (Algorithm CalibratedMeanOfMedians)",
    exhibit="errors",
    question="Does the mean of medians see through corrupted bits? (420 bits of one item)",
    trials=[Trial("errors", {"p": p, "bits": 420, "repetitions": 5000}) for p in (0.1, 0.3)],
)
