"""Results of scikit-learn's estimators: after each fold of a cross-validation, or after each epoch of ``partial_fit``.

docs/callbacks.md has examples.
"""

from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils.multiclass import unique_labels

from .reporter import Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def cross_validate(estimator: "Any", X: "Any", y: "Any" = None, *, cv: "Any" = None,  # noqa: N803
                   scoring: "Any" = None, groups: "Any" = None, final: bool = True) -> "list[float]":
    """The score of each fold, as ``cross_val_score``. After each fold the mean so far is reported; at the end the mean
    is the final result.

    ``cv``, ``scoring``, ``groups``: as of ``cross_val_score``. ``final`` False: the script reports the final result
    itself. Errors of the estimator are raised.
    """
    folds = check_cv(cv, y, classifier=is_classifier(estimator))
    reporter = Reporter("score", final)
    scores = []  # type: list[float]
    for fold in folds.split(X, y, groups):
        scores += map(float, cross_val_score(estimator, X, y, cv=[fold], scoring=scoring, error_score="raise"))
        reporter.report([sum(scores) / len(scores)])
    reporter.end()
    return scores


def partial_fit(estimator: "Any", X: "Any", y: "Any", X_valid: "Any", y_valid: "Any", *, epochs: int,  # noqa: N803
                scoring: "Any" = None, final: bool = True) -> "Any":
    """Train an estimator that has ``partial_fit``, with all of ``X`` in each epoch, and return it. The score of the
    validation data is reported after each epoch; the last one is the final result.

    ``scoring``: as of ``cross_val_score``. ``final`` False: the script reports the final result itself.
    """
    scorer = check_scoring(estimator, scoring=scoring)
    reporter = Reporter("score", final)
    classes = {"classes": unique_labels(y)} if is_classifier(estimator) else {}
    for _ in range(epochs):
        estimator.partial_fit(X, y, **classes)
        reporter.report([scorer(estimator, X_valid, y_valid)])
    reporter.end()
    return estimator
