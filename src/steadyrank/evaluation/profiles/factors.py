"""Features of items and visitors from their ratings alone: a factorisation of the rating matrix."""

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.settings import whole

MOST_FACTORS = 63  # with the feature that is 1 for all, the 64 that a model may have
_CELLS = 10_000_000  # most entries of the matrix of visitors and items that is fitted
_POOL = 2_000  # most visitors kept in a file
_SWEEPS = 30
_PLACES = 6  # decimals in files


def item_and_visitor_features(
    visitors: Ints, items: Ints, ratings: Floats, n_items: int, n_factors: int, seed: int
) -> tuple[Floats, Floats, float]:
    """Return features [K, 1 + d] of the items, the first being 1; [V, d] of held-out visitors; and their R^2.

    Rating i is entry i of `visitors`, `items` (from 0 to K - 1) and `ratings`. A fifth of the visitors, drawn with
    `seed`, is held out. The ratings of the others, minus the mean of the item, are factorised; held-out visitors are
    then folded in, and at most 2,000 of them are kept. x_k v predicts by how much a visitor rates an item above its
    mean. R^2: the share of the variance about item means in a quarter of the held-out ratings that is predicted from
    the other three quarters; below 0 if the mean predicts better.
    Cost: O(V K d^2) in each of 30 sweeps; V is limited so that V K is at most ten million.
    """
    people, rows = np.unique(visitors, return_inverse=True)
    chance = np.random.default_rng([seed, 0xFAC7])
    order = chance.permutation(people.size)
    held_out = order[: people.size // 5][:_POOL]
    fitted = order[people.size // 5 :][: max(1, _CELLS // n_items)]
    whole("the number of features", n_factors, 1, MOST_FACTORS)
    if held_out.size == 0 or n_factors >= min(n_items, fitted.size):
        raise ValueError(
            f"{n_factors} features need more than {n_factors} items and {n_factors} visitors who are not held out; "
            f"there are {n_items} and {fitted.size}"
        )
    seen, rated = _matrix(rows, items, ratings, fitted, n_items)
    means = rated.sum(0) / np.maximum(seen.sum(0), 1.0)
    factors, spreads, noise = _factorise(seen, rated - means * seen, n_factors)
    seen, rated = _matrix(rows, items, ratings, held_out, n_items)
    above = rated - means * seen
    pool, _ = _regress(seen, above, factors, spreads, np.ones(n_factors), noise)
    visible = seen * (chance.random(seen.shape) < 0.75)
    guess, _ = _regress(visible, above * visible, factors, spreads, np.ones(n_factors), noise)
    hidden = seen > visible
    worth = 1.0 - ((above - guess @ factors.T)[hidden] ** 2).sum() / max((above[hidden] ** 2).sum(), 1e-9)
    order = np.argsort(-(factors**2).sum(0), kind="stable")  # the factor with the largest effect on ratings first
    features = np.concatenate([np.ones((n_items, 1)), factors[:, order]], axis=1)
    return np.round(features, _PLACES), np.round(pool[:, order], _PLACES), float(worth)


def _matrix(rows: Ints, items: Ints, ratings: Floats, chosen: Ints, n_items: int) -> tuple[Floats, Floats]:
    """For the chosen visitors, [V, K]: whether each rated each item, and the rating (the mean of several), else 0."""
    place = np.full(int(rows.max()) + 1, -1)
    place[chosen] = np.arange(chosen.size)
    theirs = place[rows] >= 0
    at = place[rows[theirs]] * n_items + items[theirs]
    shape = (chosen.size, n_items)
    number = np.bincount(at, minlength=chosen.size * n_items).reshape(shape)
    total = np.bincount(at, ratings[theirs], chosen.size * n_items).reshape(shape)
    return (number > 0).astype(np.float64), total / np.maximum(number, 1)


def _factorise(seen: Floats, rated: Floats, n_factors: int) -> tuple[Floats, Floats, float]:
    """Factorise centred ratings [V, K]: means [K, d] and covariances [K, d, d] of item factors, residual variance.

    Variational Bayes (Lim and Teh 2007): visitors are standard normal in each factor, items normal with a fitted
    variance, so that factors with little support shrink to 0.
    """
    n_ratings = max(seen.sum(), 1.0)
    _, sizes, axes = np.linalg.svd(rated, full_matrices=False)
    factors = axes[:n_factors].T * sizes[:n_factors] * (np.sqrt(len(rated)) * seen.shape[1] / n_ratings)
    spreads, prior = np.zeros((len(factors), n_factors, n_factors)), (factors**2).mean(0) + 1e-6
    noise = 0.3 * (rated**2).sum() / n_ratings + 1e-6  # start low: otherwise all factors shrink to 0 before they fit
    for _ in range(_SWEEPS):
        people, doubts = _regress(seen, rated, factors, spreads, np.ones(n_factors), noise)
        factors, spreads = _regress(seen.T, rated.T, people, doubts, prior, noise)
        prior = (factors**2).mean(0) + np.einsum("kdd->d", spreads) / len(factors) + 1e-6
        left = (rated**2).sum() - 2.0 * ((rated.T @ people) * factors).sum()
        left += ((seen.T @ _squares(people, doubts)) * _squares(factors, spreads)).sum()
        noise = max(left / n_ratings, 0.0) + 1e-6
    return factors, spreads, float(noise)


def _regress(
    seen: Floats, rated: Floats, factors: Floats, spreads: Floats, prior: Floats, noise: float
) -> tuple[Floats, Floats]:
    """Ridge regression of each row of `rated` on the `factors` of the columns that were seen: means, covariances.

    `spreads`: covariances of the factors; `prior`: prior variances of the coefficients.
    """
    n_factors = prior.size
    precision = (seen @ _squares(factors, spreads)).reshape(-1, n_factors, n_factors) / noise + np.diag(1.0 / prior)
    covariances: Floats = np.linalg.inv(precision).astype(np.float64)
    return np.einsum("vde,ve->vd", covariances, rated @ factors) / noise, covariances


def _squares(means: Floats, spreads: Floats) -> Floats:
    """E[x x'] for each x with this mean and covariance, as a row of d^2 numbers."""
    return (means[:, :, None] * means[:, None, :] + spreads).reshape(len(means), -1)
