"""Classifiers of scikit-learn take the place of our model in a suite."""

from dataclasses import replace

import numpy as np
import pytest
from bench_helpers import SMALL_SETTINGS, TINY_SUITE, tiny_data
from click.testing import CliRunner
from parbals.errors import InputError
from parbals_bench.cli.bench import bench
from parbals_bench.run.grid import read_suite
from parbals_bench.run.own_models import N_BAGGED, OwnModel
from parbals_bench.run.single import run_one
from parbals_bench.run.spec import Settings
from sklearn.linear_model import LogisticRegression

FOREST = "sklearn.ensemble:RandomForestClassifier"
LINEAR = "sklearn.linear_model:LogisticRegression"


@pytest.mark.parametrize("strategy", ["random", "margin", "epig", "parbals-epig"])
@pytest.mark.parametrize("model", [LINEAR, "sklearn.naive_bayes:GaussianNB"])
def test_a_run_fits_the_model_and_chooses_by_it(strategy, model):
    settings = replace(SMALL_SETTINGS, model=model)
    record = run_one(tiny_data(3), "20+1x3", strategy, seed=1, settings=settings)
    assert record.inference == (model, model)
    assert record.metrics["accuracy"][-1] > 0.5  # chance is a third
    again = run_one(tiny_data(3), "20+1x3", strategy, seed=1, settings=settings)
    assert replace(again, seconds={}) == replace(record, seconds={})


def test_members_of_a_forest_are_samples():
    data = tiny_data()
    model = OwnModel(FOREST, 2, seed=3).fit(data.X_pool, data.y_pool)
    samples = model.sample_proba(data.X_test)
    assert samples.shape == (len(data.X_test), 100, 2)
    np.testing.assert_allclose(model.predict_proba(data.X_test), samples.mean(axis=1))


def test_other_classifiers_are_bagged():
    data = tiny_data()
    model = OwnModel(LINEAR, 2, seed=3).fit(data.X_pool, data.y_pool)
    assert model.sample_proba(data.X_test).shape == (len(data.X_test), N_BAGGED, 2)
    single = LogisticRegression().fit(data.X_pool, data.y_pool).predict(data.X_test)
    agreement = np.mean(model.predict_proba(data.X_test).argmax(axis=1) == single)
    assert agreement >= 0.9


def test_a_suite_names_models_and_older_keys_stay_valid():
    text = TINY_SUITE.replace("seeds = 3", f'seeds = 1\nmodel = ["", "{FOREST}"]')
    own, other = read_suite(text).runs[:2]
    assert {own.settings.model, other.settings.model} == {"", FOREST}
    assert own.key != other.key
    assert "model" not in Settings().as_dict()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("forest", "write module:name"),
        ("sklearn.ensemble:Forest", "cannot be loaded"),
        ("no_such_module:Forest", "cannot be loaded"),
        ("sklearn.linear_model:__name__", "is no class and no function"),
        ("sklearn.ensemble:VotingClassifier", "cannot be made without arguments"),
        ("sklearn.linear_model:LinearRegression", "no fit and predict_proba"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_before_anything_is_written(
    tmp_path, model, message
):
    text = TINY_SUITE.replace("seeds = 3", f'seeds = 1\nmodel = "{model}"')
    (tmp_path / "mine.toml").write_text(text)
    arguments = ["run", "--suite", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(bench, arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_settings_refuse_what_is_no_name():
    with pytest.raises(InputError, match="write module:name in quotes"):
        Settings(model=3)
    with pytest.raises(InputError, match="both set"):
        Settings(model=FOREST, departures="all")
