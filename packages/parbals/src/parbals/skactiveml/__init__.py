"""scikit-activeml: every strategy as one of its query strategies.

    from parbals.skactiveml import ParbalsQuery
    from skactiveml.classifier import SklearnClassifier

    query = ParbalsQuery("parbals-epig", random_state=0)
    clf = SklearnClassifier(parbals.BayesianLogisticRegression(), classes=[0, 1])
    indices = query.query(X, y, clf, batch_size=10)

``y`` holds a label for every row of ``X``, missing ones included, as everywhere in that library.
"""

from parbals.files import need

need("skactiveml", "The query strategies for scikit-activeml", "parbals[skactiveml]")
from parbals.skactiveml.query import ParbalsQuery  # noqa: E402 - what may be missing comes first

__all__ = ["ParbalsQuery"]
