"""Fake visitors, who click what they are paid for and nothing else."""

from .budget import fake_visit
from .promote import Promote


class FakeUser(Promote):
    """A fake user in place of the real one: clicks the first target shown, otherwise leaves without a click.

    The model of Golrezaei et al. 2021. Consistent fake users spread over time cannot be told from a change of
    taste. Settings: `targets`: `bottom` (the least attractive `share` of the items), `best`, `worst` or item numbers.
    """

    __slots__ = ()

    def corrupt(self, visit, ranking, clicks, examined, rng):
        return fake_visit(self.budget, self.users, visit, self.target, ranking, clicks, examined)
