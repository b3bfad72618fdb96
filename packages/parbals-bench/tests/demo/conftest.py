"""One tiny run of the demo, shared by the tests that look at it."""

from contextlib import contextmanager

import numpy as np
import pytest
from matplotlib.figure import Figure
from parbals_bench.datasets import sms_spam
from parbals_bench.demo import report, run
from parbals_bench.demo.run import run_demo


@pytest.fixture(scope="package")
def few():
    """A tenth, which saves most of the time; without addresses, so that the page's own show."""
    every = sms_spam.load_messages()
    plain = [row for row, text in enumerate(every.texts) if "http" not in text]
    return every.take(np.array(plain[::10]))


@contextmanager
def shipped(messages):
    """While it holds, these are the messages that come with the package."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (sms_spam, run):
            patch.setattr(module, "load_messages", lambda: messages)
        yield


@pytest.fixture(autouse=True)
def few_messages(few):
    """Around each test: a worker may run tests of other folders before this one's are done."""
    with shipped(few):
        yield


@pytest.fixture(scope="package")
def demo(few, stages):
    with shipped(few):
        return run_demo(2, "12+1x3", n_targets=40, progress=lambda *stage: stages.append(stage))


@pytest.fixture(scope="package")
def stages():
    """What the run said of its progress."""
    return []


@pytest.fixture
def quick_pictures(monkeypatch):
    """Drawing takes a second a page; tests that read the text alone do without."""
    monkeypatch.setattr(report, "curves", lambda *args: Figure((1, 1)))
