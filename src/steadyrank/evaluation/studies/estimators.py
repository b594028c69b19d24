"""The effect of an attack on estimates."""

from ..lab.cells import Study, Trial

ATTRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
_BITS = 420

STUDY = Study(
    place=9,
    name="estimators",
    title="Bias and error of estimates under flips in front, spread and in bursts",
    paper="the calibrated mean of medians (Algorithm 3)",
    exhibit="errors",
    question="Does the mean of medians see through corrupted bits? (420 bits of one item)",
    trials=[
        *(Trial("errors", {"p": p, "bits": _BITS, "repetitions": 2500}) for p in ATTRACTIONS),
        *(
            Trial("changed_medians", {"p": p, "flipped": 0.1, "bits": _BITS, "repetitions": 5000})
            for p in ATTRACTIONS
        ),
    ],
)
