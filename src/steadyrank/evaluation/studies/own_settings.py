"""The robust rivals in the settings of their own papers, as far as these are public: docs/rivals.md."""

from ..lab.cells import Study

_PLAIN = [{"learner": name} for name in ("CascadeUCB1", "CascadeUCBV", "CascadeTS", "M2UCBV", "SteadyRank")]
_RANDOM = [{"learner": "Random"}]
_LITERAL = [
    {"learner": "CascadeCBARBAR", "settings": {"schedule": "literal", "lam": lam}} for lam in ("code-4", "code-64")
]
_RAC, _FAR, _FORC = (
    [{"learner": name}, {"learner": name, "settings": {"rho": 0.3}}] for name in ("CascadeRAC", "FAR", "FORC")
)

STUDY = Study(
    place=22,
    name="own-settings",
    title="RAC, RKC, FAR, FORC and CBARBAR in their own papers' settings",
    paper="beyond the paper",
    exhibit="rates",
    question="Do the rivals, as reconstructed here, keep what their own papers promise? (docs/rivals.md)",
    blocks=[
        # Xie et al. 2025: 500 items, lists of 5, 1,000,000 rounds; attractions and attack are our guess
        {
            "world": [{"profile": "synthetic-two-levels", "length": 5, "horizon": 1_000_000}],
            "when": [{"rate": 0.0}, {"adversary": "Demote", "rate": 0.003}],
            "who": [*_RAC, {"learner": "CascadeRKC"}, *_PLAIN, *_RANDOM],
        },
        # Golrezaei et al. 2021: fake users; products, rounds and shares are our guess
        {
            "world": [{"profile": "synthetic-spread", "n_items": 20, "length": 5, "horizon": 100_000}],
            "adversary": ["FakeUser"],
            "rate": [0.0, 0.01, 0.1],
            "who": [*_FAR, *_FORC, {"learner": "TopRank"}, *_PLAIN, *_RANDOM],
        },
        # Xu, Li 2021: the size of a public transcription's runs, bits inverted with probability 0.3 or 0.4
        {
            "world": [{"profile": "synthetic-five-items", "length": 2, "horizon": 100_000}],
            "when": [{"schedule": "spread", "rate": rate} for rate in (0.0, 0.3, 0.4)],
            "who": [{"learner": "CascadeCBARBAR"}, *_LITERAL, {"learner": "FTRL"}, *_PLAIN, *_RANDOM],
        },
    ],
    default=False,
)
