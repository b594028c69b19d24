"""Monte-Carlo checks of the three lemmas about the estimator."""

from ..lab.cells import Study, Trial

_LEMMA2 = {"block": 21, "delta": 0.05, "repetitions": 400}

STUDY = Study(
    place=10,
    name="lemmas",
    title="Monte-Carlo checks of Lemmas 1 to 3",
    paper="Lemmas 1 to 3",
    exhibit="lemmas",
    question="Does every block keep an honest majority, and is the estimate as near as stated?",
    trials=[
        *(
            Trial("lemma1", {"reading": reading, "samples": samples, "alpha": 16.0, "repetitions": 2000})
            for reading in ("number", "size")
            for samples in (500, 2_000, 8_000)
        ),
        *(
            Trial("lemma2", {"p": p, "flipped": flipped, "bits": bits, **_LEMMA2})
            for bits in (2_100, 21_000)
            for flipped in (0.0, 0.1)
            for p in (0.1, 0.2, 0.3, 0.4, 0.5)
        ),
        *(
            Trial(
                "lemma3",
                {"p": p, "flipped": flipped, "bits": 2_100, "block": 21, "horizon": 40_000, "repetitions": 400},
            )
            for flipped in (0.0, 0.1)
            for p in (0.1, 0.2, 0.3, 0.4, 0.5)
        ),
        Trial("variance", {"most": 301, "repetitions": 9_999}),
    ],
)
