"""Accuracy of private linear classifiers on a few hundred records, where the noise decides."""

from functools import partial

from reproduction import sgd
from reproduction.base import Experiment
from reproduction.sgd_data import breast_cancer, digits

TASKS = (breast_cancer, partial(digits, 0, 1), partial(digits, 3, 8), partial(digits, 4, 9))
ACCURACY = Experiment(
    name="sgd-small-data",
    title="Private linear classifiers on a few hundred records: test accuracy against ε",
    run=lambda: sgd.accuracies(TASKS),
    size=(12.0, 4.2),
    second=lambda: sgd.accuracies(TASKS, first=sgd.SPLITS),
)
