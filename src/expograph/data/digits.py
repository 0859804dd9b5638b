"""Scikit-learn's digits: the data set that is always there."""

from pathlib import Path

import numpy as np

from expograph.data.dataset import Dataset, from_arrays


def digits(root: Path) -> Dataset:
    """Scikit-learn's digits: 1797 grey images of 8 x 8 with values 0..16, 10 classes.

    They come with scikit-learn, `root` is not read. Of each class, every fifth sample in the
    published order is a test sample (1438 train, 359 test): the same split everywhere, by a
    rule that no random generator's version can change.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8, 1).astype(np.uint8)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        is_test[np.flatnonzero(labels == label)[2::5]] = True
    return from_arrays(
        "digits",
        (images[~is_test], labels[~is_test]),
        (images[is_test], labels[is_test]),
        scale=16.0,
        source="scikit-learn's load_digits",
    )
