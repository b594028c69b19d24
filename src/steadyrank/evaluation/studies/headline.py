"""SteadyRank under ten attacks with many seeds: the figures in README and docs/steadyrank.md."""

from ..lab.cells import Study
from .lineup import OMNISCIENT
from .matrix import ATTACKS, PROFILES, WHEN

_FOES = [*ATTACKS, "Promote", "Demote", "CascadeAttack", "Sleeper"]
# Flicker knows the windows of SteadyRank: half of each is false. Insider runs its test, and lies as often as the test
# does not notice. The schedule swing varies the share of false rounds too slowly for any test.
_KNOWING = [
    {"adversary": "Flicker", "adversary_settings": {"turn": 25}, "rate": 0.15},
    *({"adversary": "Insider", "rate": rate} for rate in (0.05, 0.15, 0.25)),
]
_SWING = {"schedule": "swing", "rate": 0.15}
_WHO = [{"learner": "SteadyRank"}, OMNISCIENT]

STUDY = Study(
    place=19,
    name="headline",
    title="SteadyRank under ten attacks",
    paper="beyond the paper",
    exhibit="attacks",
    question="How many times the regret of a learner that never sees a false click?",
    blocks=[
        {"world": PROFILES, "adversary": _FOES, "when": WHEN, "who": _WHO},
        {"world": PROFILES, "adversary": _FOES, "when": [_SWING], "who": _WHO},
        {"world": PROFILES, "foe": _KNOWING, "schedule": ["front", "late"], "who": _WHO},
        {"world": PROFILES, "adversary": ["Honest"], "who": _WHO},
    ],
    default=False,
)
