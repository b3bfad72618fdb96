"""scikit-activeml: every strategy as one of its query strategies, and our model as a classifier.

    from parbals.skactiveml import BayesianClassifier, ParbalsQuery

    query = ParbalsQuery("parbals-epig", random_state=0)
    indices = query.query(X, y, clf=BayesianClassifier(classes=[0, 1]), batch_size=10)

``y`` holds a label for every row of ``X``, missing ones included, as everywhere in that library.
"""

from parbals.skactiveml.classifier import BayesianClassifier
from parbals.skactiveml.query import ParbalsQuery

__all__ = ["BayesianClassifier", "ParbalsQuery"]
