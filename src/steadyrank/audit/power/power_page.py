"""What an audit finds, as a table of text and as one HTML page with curves."""

from ..sentences import percent
from ..show.drawing import curves
from ..show.html import Html, shell, table
from . import experiment
from .baselines import FOREST
from .experiment import CaseResult, alarms, by_detector, found_by_share


def power_table(results: list[CaseResult]) -> str:
    """As text: attacks by share of impressions, how often nine tenths of the interval are found."""
    lines = ["found with an overlap of 90 %, by share of false impressions:"]
    lines.append(f"{'':<28}" + "".join(f"{percent(share):>9}" for share in experiment.SHARES))
    for name, points in found_by_share(results).items():
        lines.append(f"{name:<28}" + "".join(f"{100 * hit:>7.0f} %" for _, hit in points))
    wrong, honest = alarms(results)
    lines.append(f"false alarms: {wrong} of {honest} honest logs (steady, slow drift, daily cycle)")
    lines.append("all attacks, beside simple detectors that are told who came; and honest logs with something found:")
    for name, (hits, blamed) in by_detector(results).items():
        lines.append(f"{name:<28}" + "".join(f"{100 * hit:>7.0f} %" for hit in hits) + f"   {blamed} of {honest}")
    if FOREST not in results[0].others:
        lines.append(f"{FOREST}: left out, scikit-learn is not installed")
    return "\n".join(lines)


def power_page(results: list[CaseResult]) -> str:
    """The curve as one HTML page."""
    lines = found_by_share(results)
    rows = [(name, *(f"{100 * hit:.0f} %" for _, hit in points)) for name, points in lines.items()]
    wrong, honest = alarms(results)

    def figure(world: str) -> str:
        drawn = {attack: lines[f"{attack}, {world}"] for attack in experiment.ATTACKS}
        words = f"Share of attacks found by their size, {world}"
        return f"<figure>{curves(drawn, words)}<figcaption>{words}</figcaption></figure>"

    beside = [
        (name, *(f"{100 * hit:.0f} %" for hit in hits), f"{blamed} of {honest}")
        for name, (hits, blamed) in by_detector(results).items()
    ]
    without = "" if FOREST in results[0].others else f" The {FOREST} is left out: scikit-learn is not installed."
    note = f"All attacks together. The simple detectors are told who came, this audit is not.{without}"
    body = (
        "<p>Attacks planted in simulated logs: the share of logs in which the interval was found with an overlap of "
        f"at least 90 %, by the share of impressions that were false. {len(results):,} logs of "
        f"{experiment.IMPRESSIONS:,} impressions, {experiment.ITEMS} items, lists of {experiment.LENGTH} shown by "
        f"{' and '.join(experiment.LEARNERS)}, attacks at the front and as bursts. False alarms: {wrong} of {honest} "
        "honest logs.</p>"
        f"{''.join(map(figure, experiment.WORLDS))}"
        f"{table(['attack', *map(percent, experiment.SHARES)], rows)}"
        "<h2>Beside simple detectors</h2>"
        f"{table(['detector', *map(percent, experiment.SHARES), 'honest logs blamed'], beside, note)}"
    )
    return shell("What an audit finds", "", Html(body))
