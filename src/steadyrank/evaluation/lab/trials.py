"""Monte-Carlo experiments on the paper's estimator and its lemmas, without a learner."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import philox
from ...core.arrays import Floats
from ...core.compiling.jit import kernel
from ...learners.median.calibration import block_majority, calibrate, majority
from ...learners.median.means import Medians, TimeMedians, median_in_time, observe, observe_in_time
from ...learners.median.partitions import A3

Columns = dict[str, list[Any]]
_TIME_BLOCKS = 21
_RANDOM_BLOCKS: dict[str, dict[str, Any]] = {  # of 420 bits; sizes by T = 40,000 or by the number of bits
    "mean of medians, random, b = 5": {"preset": "paper-exp", "block": 5},
    "mean of medians, random, b = 21": {"preset": "paper-exp", "block": 21},
    "mean of medians, random, b = 33": {"preset": "paper-alg"},
    "mean of medians, random, b = 95": {"preset": "paper-app"},
    "mean of medians, in time, b = 21": {"preset": "paper-exp", "block": 21, "partition": "consecutive"},
}
PAPERS_BLOCKS = {  # the readings of the paper's blocks, with their names above
    "blocks of the paragraph commented out": "mean of medians, random, b = 21",
    "blocks of Algorithm 3 as printed": "mean of medians, random, b = 33",
    "blocks of the appendix": "mean of medians, random, b = 95",
}
_AVERAGED_BLOCK = 21
TIME_MEANS = f"median of means, {_TIME_BLOCKS} blocks in time"
RANDOM_MEANS = f"median of means, {_TIME_BLOCKS} random blocks"
_CASES = {
    "clean": ("none", 0.0),
    "front 10 %": ("front", 0.10),
    "front 25 %": ("front", 0.25),
    "spread 25 %": ("spread", 0.25),
    "3 bursts 10 %": ("bursts", 0.10),
    "3 bursts 25 %": ("bursts", 0.25),
}


@kernel
def feed(book, bits, state):
    """Observe `bits`, [stream, i]; if each bit draws a new partition, all but the last are only counted."""
    counted = bits.shape[1] - 1 if book.reading != A3 else 0
    for k in range(bits.shape[0]):
        for i in range(counted):
            book.clicks[k] += bits[k, i]
        book.looks[k] = counted
    for i in range(counted, bits.shape[1]):
        for k in range(bits.shape[0]):
            observe(book, k, bits[k, i], state)


@kernel
def feed_in_time(book, bits, estimates):
    """The same for blocks in time; writes their medians to `estimates`."""
    for k in range(bits.shape[0]):
        for i in range(bits.shape[1]):
            observe_in_time(book, k, bits[k, i])
        estimates[k] = median_in_time(book, k)


def errors(seed: int, *, p: float, bits: int, repetitions: int) -> Columns:
    """Bias and root mean square error of each estimate of `p` under each case of inverted bits.

    `bias_error` and `rmse_error` are their standard errors, the latter by the delta method.
    """
    out: Columns = {name: [] for name in ("estimate", "case", "bias", "bias_error", "rmse", "rmse_error")}
    for case, (where, share) in _CASES.items():
        rng = np.random.default_rng([seed, list(_CASES).index(case)])
        streams = (rng.random((repetitions, bits)) < p).astype(np.int64)
        flips = np.array([_flipped(where, share, bits, rng) for _ in range(repetitions)])
        for name, estimates in _estimates(np.where(flips, 1 - streams, streams), seed).items():
            out["estimate"].append(name)
            out["case"].append(case)
            square = (estimates - p) ** 2
            rmse, scale = math.sqrt(square.mean()), 1.0 / math.sqrt(repetitions)
            out["bias"].append(float(estimates.mean() - p))
            out["bias_error"].append(scale * float(estimates.std()))
            out["rmse"].append(rmse)
            out["rmse_error"].append(scale * float(square.std()) / max(2.0 * rmse, 1e-300))
    return out


def _flipped(where: str, share: float, bits: int, rng: np.random.Generator) -> Any:
    """Which bits of a stream are inverted."""
    flips, number = np.zeros(bits, np.bool_), round(share * bits)
    if where == "front":
        flips[:number] = True
    elif where == "spread":
        flips[rng.permutation(bits)[:number]] = True
    elif where == "bursts":
        for start in (0, bits // 3, 2 * bits // 3):
            flips[start : start + number // 3] = True
    return flips


def _estimates(streams: Any, seed: int) -> dict[str, Floats]:
    repetitions, bits = streams.shape
    estimates = {"sample mean": streams.mean(axis=1)}
    for label, blocks in _RANDOM_BLOCKS.items():
        book = Medians.create(
            (repetitions,),
            bits,
            preset=blocks["preset"],
            reading=None,
            partition=blocks.get("partition", "random"),
            block=blocks.get("block"),
            alpha=None,
            least_blocks=1,
            calibration="exact",
            eta=None,
            edge="literal",
        )
        feed(book, streams, philox.start(seed))
        estimates[label] = book.estimate
    averaged = [calibrate(_AVERAGED_BLOCK, block_majority(bits, ones, _AVERAGED_BLOCK)) for ones in range(bits + 1)]
    estimates[f"mean of medians, averaged, b = {_AVERAGED_BLOCK}"] = np.array(averaged)[streams.sum(axis=1)]
    shuffled = np.random.default_rng([seed, bits]).permuted(streams, axis=1)
    for label, ordered in ((TIME_MEANS, streams), (RANDOM_MEANS, shuffled)):
        medians = np.zeros(repetitions)
        feed_in_time(TimeMedians.create(repetitions, _TIME_BLOCKS), ordered, medians)
        estimates[label] = medians
    estimates["mean of the last half"] = streams[:, bits // 2 :].mean(axis=1)
    return estimates


def changed_medians(seed: int, *, p: float, flipped: float, bits: int, repetitions: int) -> Columns:
    """Share of blocks of a random partition whose median changes if a share `flipped` of all bits is inverted.

    For the block sizes of the paper's three readings at this number of bits; `error`: the standard error.
    """
    rng = np.random.default_rng([seed, 4, round(1000 * p)])
    streams = rng.random((repetitions, bits)) < p
    flips = np.argsort(rng.random((repetitions, bits)), axis=1) < round(flipped * bits)  # at random places
    out: Columns = {"block": [], "changed": [], "error": []}
    for block in (21, 33, 95):
        used, shape = bits // block * block, (repetitions, bits // block, block)
        before, after = (of[:, :used].reshape(shape).sum(axis=2) > block // 2 for of in (streams, streams ^ flips))
        changed = (before != after).mean(axis=1)
        out["block"].append(block)
        out["changed"].append(float(changed.mean()))
        out["error"].append(float(changed.std()) / math.sqrt(repetitions))
    return out


def lemma1(seed: int, *, reading: str, samples: int, alpha: float, repetitions: int) -> Columns:
    """Probability that a random partition has a block without an honest majority, a tenth of the samples corrupted.

    `reading`: alpha log s is the `number` of blocks, or their `size`; the paper's letter b means both. `least` and
    `most` bound the exact probability: that of one block, and its sum over blocks; `tried` is the observed share.
    """
    corrupted = samples // 10
    target = math.ceil(alpha * math.log(samples))
    size = samples // target if reading == "number" else min(target, samples)
    size -= 1 - size % 2  # odd: no block is undecided
    blocks = samples // size
    one = float(block_majority(samples, corrupted, size))
    rng = np.random.default_rng([seed, samples])
    sizes = [size] * blocks + [samples - size * blocks]
    drawn = rng.multivariate_hypergeometric(sizes, corrupted, repetitions, method="marginals")[:, :blocks]
    tried = float((drawn.max(axis=1) > size // 2).mean())
    return {
        "reading": [reading],
        "samples": [samples],
        "corrupted": [corrupted],
        "blocks": [blocks],
        "size": [size],
        "least": [one],
        "most": [min(1.0, blocks * one)],
        "tried": [tried],
        "stated": [samples**-3.0],
    }


def lemma2(seed: int, *, p: float, flipped: float, bits: int, block: int, delta: float, repetitions: int) -> Columns:
    """Share of runs with the mean of medians within Lemma 2's width of q_b(p), a share `flipped` of bits inverted.

    The lemma bounds |estimate - p| by width / q_b'(xi) with xi, by its proof, between p and the estimate: by the mean
    value theorem that is |mean of medians - q_b(p)| <= width, which does not depend on xi. Runs in which a block
    loses its honest majority are left out, as the lemma assumes.
    """
    rng = np.random.default_rng([seed, round(1000 * p), round(1000 * flipped)])
    streams = rng.random((repetitions, bits)) < p
    flips = np.argsort(rng.random((repetitions, bits)), axis=1) < round(flipped * bits)
    shares = _majorities(streams, flips, block)
    estimates = np.array([calibrate(block, share) for share in shares])
    q, a = float(majority(block, p)), block * math.log(2 / delta) / bits
    width = math.sqrt(2 * a * q * (1 - q)) + 2 * a / 3
    return {
        "p": [p],
        "flipped": [flipped],
        "bits": [bits],
        "block": [block],
        "kept": [shares.size / repetitions],
        "width": [width],
        "bias": [float(estimates.mean() - p)],
        "covered": [float((np.abs(shares - q) <= width).mean())],
        "stated": [1 - delta],
    }


def _majorities(streams: Any, flips: Any, block: int) -> Floats:
    """Shares of blocks with a majority of ones, for the runs in which every block has an honest majority."""
    repetitions, bits = streams.shape
    shape = (repetitions, bits // block, block)
    used = bits // block * block
    kept = flips[:, :used].reshape(shape).sum(axis=2).max(axis=1) <= block // 2
    wins = (streams ^ flips)[:, :used].reshape(shape).sum(axis=2) > block // 2
    shares: Floats = wins.mean(axis=1)[kept]
    return shares


def lemma3(seed: int, *, p: float, flipped: float, bits: int, block: int, horizon: int, repetitions: int) -> Columns:
    """How often the error is within the bound of Lemma 3, with A and B from its proof (appendix B).

    A = 2 sqrt(2 b) / q_b'(xi), B = 4 b / (3 q_b'(xi)) + b / q_b'(xi)^2, and xi the point of the mean value theorem:
    q_b'(xi) = |mean of medians - q_b(p)| / |estimate - p| in each run. Runs in which a block loses its honest
    majority are left out, as the lemma assumes.
    """
    rng = np.random.default_rng([seed, 3, round(1000 * p), round(1000 * flipped)])
    streams = rng.random((repetitions, bits)) < p
    flips = np.argsort(rng.random((repetitions, bits)), axis=1) < round(flipped * bits)
    shares = _majorities(streams, flips, block)
    estimate = np.array([calibrate(block, share) for share in shares])
    error = np.abs(estimate - p)
    slope = np.abs(shares - majority(block, p)) / np.maximum(error, 1e-300)
    a = math.log(horizon) / bits
    with np.errstate(divide="ignore", over="ignore"):
        width = 2 * np.sqrt(2 * block * estimate * (1 - estimate) * a) / slope
        bound = width + (4 * block / (3 * slope) + block / slope**2) * a
    return {
        "p": [p],
        "flipped": [flipped],
        "bits": [bits],
        "error": [float(np.median(error))],
        "bound": [float(np.median(bound))],
        "covered": [float(np.mean((error <= bound) | (error == 0.0)))],
        "stated": [1 - horizon**-4.0],
    }


def variance(seed: int, *, most: int, repetitions: int) -> Columns:
    """The largest q_b(p) (1 - q_b(p)) - p (1 - p) over a grid of p, for odd b up to `most`; deterministic."""
    sizes = [b for b in range(3, most + 1, 2) if b < 30 or b % 10 == 1]
    grid = np.arange(1, repetitions + 1) / (repetitions + 1)
    worst = []
    for b in sizes:
        q = np.array([majority(b, p) for p in grid])
        worst.append(float(np.max(q * (1 - q) - grid * (1 - grid))))
    return {"b": sizes, "excess": worst}


KINDS: dict[str, Callable[..., Columns]] = {
    "errors": errors,
    "changed_medians": changed_medians,
    "lemma1": lemma1,
    "lemma2": lemma2,
    "lemma3": lemma3,
    "variance": variance,
}
