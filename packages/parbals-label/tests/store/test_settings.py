"""What a project remembers of its settings."""

import pytest
from parbals.learner.numbers.metric import BALANCED
from parbals_label.store.settings import metric_of, setting_of


@pytest.mark.parametrize("metric", ["accuracy", "log-loss", BALANCED, "f1:spam"])
def test_a_metric_is_what_it_was_remembered_as(metric):
    assert metric_of(setting_of(metric)) == metric


def test_a_project_remembers_a_loss_where_a_metric_has_one():
    assert (setting_of("accuracy"), setting_of("log-loss")) == ("error", "log")
