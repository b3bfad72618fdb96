"""All strategies as query strategies of scikit-activeml.

    from parbals.skactiveml import ParbalsQuery
    from skactiveml.classifier import SklearnClassifier

    query = ParbalsQuery("parbals-epig", random_state=0)
    clf = SklearnClassifier(parbals.BayesianLogisticRegression(), classes=[0, 1])
    indices = query.query(X, y, clf, batch_size=10)

As in all of scikit-activeml, ``y`` has an entry for every row of ``X``: a label or the missing
label.
"""

from parbals.files import need

need("skactiveml", "The query strategies for scikit-activeml", "parbals[skactiveml]")
from parbals.skactiveml.query import ParbalsQuery  # noqa: E402 - checked above

__all__ = ["ParbalsQuery"]
