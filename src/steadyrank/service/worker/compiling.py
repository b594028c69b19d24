"""What boards use unless they say otherwise, compiled before the first request, which would not wait for it."""

from collections.abc import Callable

from ..._jit import told_of_compiling
from ...live import Ranker
from ..board.checks import guards_of
from ..board.config import NEW_BOARD


def compile_ahead(say: Callable[[str], None]) -> None:
    """Load the default learner and guards; compile them on a machine's first start, which `say` is told of."""
    usual = NEW_BOARD
    said = False

    def tell(begins: bool) -> None:
        nonlocal said
        if begins and not said:
            said = True
            say(f"Compiling {usual.learner} and {usual.guard}, once on this machine: about a minute.")

    with told_of_compiling(tell):
        ranker = Ranker(["a", "b"], 2, usual.learner, guard=guards_of(usual))
        ranker.feedback(ranker.rank(client=0).id, clicked="a")
        ranker.view()
        ranker.guard_views()
