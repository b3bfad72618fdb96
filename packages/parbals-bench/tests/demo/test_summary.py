"""Sentences that claim what the numbers support, and no more."""

from dataclasses import replace

import pytest
from parbals.wording import percent
from parbals_bench.demo.report import curve_sentences, worth_sentences


def with_finals(demo, **finals):
    """The same demo with given final accuracies, strategy by strategy, seed by seed."""
    records = {
        name: tuple(
            replace(
                run, metrics={**run.metrics, "accuracy": (*run.metrics["accuracy"][:-1], final)}
            )
            for run, final in zip(runs, finals[name.replace("-", "_")], strict=False)
        )
        for name, runs in demo.records.items()
    }
    return replace(demo, records=records)


def test_a_clear_difference_is_called_clear(demo):
    clear = with_finals(demo, random=[0.80, 0.80], epig=[0.85, 0.85], parbals_epig=[0.95, 0.9501])
    text = " ".join(curve_sentences(clear))
    assert "15.0 points above Random" in text
    assert "clear difference" in text
    assert "ParBaLS EPIG 95 %, EPIG 85 %, Random 80 %" in text


def test_an_unclear_difference_is_called_unclear(demo):
    unclear = with_finals(demo, random=[0.90, 0.95], epig=[0.95, 0.90], parbals_epig=[0.96, 0.90])
    assert "cannot tell from no difference" in " ".join(curve_sentences(unclear))


def test_losing_is_said_as_plainly_as_winning(demo):
    lost = with_finals(demo, random=[0.95, 0.95], epig=[0.90, 0.90], parbals_epig=[0.85, 0.8501])
    sentences = curve_sentences(lost)
    assert "10.0 points below Random" in sentences[1]
    assert "5.0 points below EPIG" in sentences[2]


def test_one_seed_proves_nothing(demo):
    single = with_finals(demo, random=[0.9], epig=[0.9], parbals_epig=[0.9])
    assert all("a single run proves nothing" in line for line in curve_sentences(single)[1:])


def test_the_batches_are_compared_by_what_they_teach(demo):
    ours = demo.first["parbals-epig"]
    other = demo.first["epig"]
    *one_by_one, ratio = worth_sentences(demo)
    assert len(one_by_one) == len(demo.first)
    assert f"{ours.joint / other.joint:.1f} times as much as the EPIG batch" in ratio


@pytest.mark.parametrize("name", ["random", "epig", "parbals-epig"])
def test_redundancy_is_told_for_each(demo, name):
    share = f"{percent(demo.first[name].redundancy)} of the information in its messages is"
    assert any(share in line for line in worth_sentences(demo))
