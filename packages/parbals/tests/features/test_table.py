"""Tables as people have them: what each column is read as, and that later rows are read alike."""

import datetime
import json

import numpy as np
import pytest
from parbals.errors import InputError, ShapeError
from parbals.features.reading import guess_reading, read_cells
from parbals.features.table import TableEncoding, is_identifier

DAY = datetime.date(2024, 2, 29)


@pytest.mark.parametrize(
    ("cells", "reading", "numbers"),
    [
        (["1", " 2.5 ", ""], "point", [1, 2.5, None]),
        (["3,5", "1.234,56", "n/a"], "comma", [3.5, 1234.56, None]),
        (["1,234", "950", "12,500.25"], "point", [1234, 950, 12500.25]),
        (["€ 12", "45 %", "-"], "point", [12, 45, None]),
        (["1970-01-02", "1970-01-03T12:00", None], "date", [1, 2.5, None]),
        (["1970/1/2", "1970/01/03"], "date", [1, 2]),
        (["13.1.1970", "1.2.1970"], "day/month", [12, 31]),
        (["1/13/1970", "2/1/1970"], "month/day", [12, 31]),
        ([DAY, None, datetime.datetime(2024, 2, 29, 12)], "date", [19782, None, 19782.5]),
        (np.array(["2024-02-29", "NaT"], "datetime64[ns]"), "date", [19782, None]),
        ([1, 2.5, None, float("nan")], "point", [1, 2.5, None, None]),
        (["1", "2", "3", "4", "five"], "point", [1, 2, 3, 4, None]),
    ],
)
def test_cells_are_read_as_they_were_meant(cells, reading, numbers):
    assert guess_reading(cells).reading == reading
    expected = [np.nan if number is None else number for number in numbers]
    np.testing.assert_allclose(read_cells(cells, reading), expected)


@pytest.mark.parametrize(
    "cells",
    [["Oslo", "Rome"], ["01067", "53111"], [True, False], ["yes", "no"], ["", None], ["1_0", "x"]],
)
def test_names_codes_and_yes_no_are_not_numbers(cells):
    assert guess_reading(cells) is None


def test_dates_that_could_be_either_are_said():
    assert guess_reading(["3.4.2024", "5.6.2024"]) == ("day/month", 0, None, True)
    assert guess_reading(["3/4/2024", "5/6/2024"]) == ("month/day", 0, None, True)
    assert not guess_reading(["3.4.2024", "13.6.2024"]).is_ambiguous


def row(encoding, **cells):
    """The names of what is not zero in one row."""
    table = {name: [cells.get(name)] for name in encoding.names}
    (values,) = encoding.transform(table)
    names = list(slots(encoding))
    assert len(names) == len(values) == encoding.width
    return {names[position] for position in np.flatnonzero(values)}


def slots(encoding):
    """What each place of a row stands for."""
    for column in encoding.columns:
        name = ", ".join(filter(None, (column.source, column.part)))
        if hasattr(column, "values"):
            yield from (f"{name} = {value}" for value in column.values)
        else:
            yield name
            yield from (f"{name}, bin {number}" for number in range(len(column.edges) + 1))
        if column.has_gaps:
            yield f"{name} is missing"
        if getattr(column, "has_rest", False):
            yield f"{name} is another"


class TestEncoding:
    def test_gaps_categories_and_new_values(self):
        table = {
            "city": ["Oslo", "oslo ", "Rome", "Rome", "Bern", "Nice", ""],
            "member": ["Yes", "n", "NO", "y", "yes", None, "no"],
            "age": [20, 30, 40, None, 60, 70, 80],
        }
        encoding = TableEncoding.fit(table)
        assert row(encoding, city=" OSLO", member="t", age=20) == {
            "city = oslo",
            "member = yes",
            "age",
            "age, bin 0",
        }
        assert row(encoding, city="Bern", age=1e9) == {
            "city is another",
            "member is missing",
            "age",
            "age, bin 5",
        }
        assert row(encoding) == {"city is missing", "member is missing", "age is missing"}
        assert "2 rare values of 'city' count as one." in encoding.notes

    def test_a_number_is_its_bin_and_half_its_standard_score_cut_off(self):
        x = np.arange(100.0)
        encoding = TableEncoding.fit(
            {"x": x, "y": np.repeat([0.0, 1.0], 50)}, keep_identifiers=True
        )
        rows = encoding.transform({"x": [0.0, 1e12], "y": [0, 1]})
        assert rows[0, 0] == pytest.approx(0.5 * (0 - x.mean()) / x.std(), rel=1e-6)
        assert rows[1, 0] == 1.5
        assert rows[0, 1:11].tolist() == [1] + [0] * 9
        assert rows[1, 1:11].tolist() == [0] * 9 + [1]

    def test_a_date_is_a_number_a_month_and_a_weekday(self):
        days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=9 * i) for i in range(30)]
        encoding = TableEncoding.fit({"opened": days})
        active_slots = row(encoding, opened=datetime.date(2024, 2, 29))  # a Thursday
        assert {"opened, month = 2", "opened, weekday = 4", "opened"} <= active_slots
        assert "hour" not in {column.part for column in encoding.columns}

    def test_what_tells_only_the_rows_apart_is_left_out_unless_asked_for(self):
        table = {
            "n": list(range(30)),
            "name": [f"person {i}" for i in range(30)],
            "same": ["x"] * 30,
            "size": [i % 3 for i in range(30)],
        }
        encoding = TableEncoding.fit(table)
        assert encoding.names == ("size",)
        assert [note.split(" ")[0] for note in encoding.notes] == ["'n'", "'name'", "'same'"]
        assert "n" in TableEncoding.fit(table, keep_identifiers=True).names
        with pytest.raises(InputError, match="distinguishes the items"):
            TableEncoding.fit({"same": ["x"] * 30})

    def test_many_numbers_are_not_cut_into_bins(self):
        X = np.random.default_rng(0).standard_normal((40, 65))
        X[3, 5] = np.nan
        encoding = TableEncoding.fit({f"x{i}": X[:, i] for i in range(65)})
        assert encoding.width == 66

    def test_cells_that_do_not_fit_are_counted_and_shown(self):
        encoding = TableEncoding.fit({"age": ["20", "30", "40", "50", "old", "60"]})
        assert encoding.notes == ("1 cell of 'age' is not a number ('old') and counts as empty.",)

    def test_lists_in_cells_are_refused(self):
        with pytest.raises(InputError, match="'v' holds lists"):
            TableEncoding.fit({"v": [[1, 2], [3, 4]]})

    def test_it_is_kept_as_json_and_reads_the_same(self):
        table = {
            "when": ["13.1.2024", "2.2.2024", None, "5.7.2023"],
            "city": ["a", "b", "a", ""],
            "price": ["1,5", "2,5", "-", "3,0"],
        }
        encoding = TableEncoding.fit(table)
        again = TableEncoding.from_json(json.loads(json.dumps(encoding.as_json())))
        np.testing.assert_array_equal(again.transform(table), encoding.transform(table))
        assert again.columns == encoding.columns
        with pytest.raises(ShapeError, match="no column 'city'"):
            again.transform({"when": [], "price": []})


def test_sums_of_money_are_no_names_however_seldom_they_repeat():
    sums = [f"€ {1_000 + 37.25 * i:,.2f}" for i in range(60)]
    spending = TableEncoding.fit({"spent": sums, "customer": [f"C{i:03d}" for i in range(60)]})
    assert spending.names == ("spent",)
    assert spending.notes == ("'customer' is left out: it only identifies rows.",)
    numbered = TableEncoding.fit({"spent": sums, "row": [str(i) for i in range(60)]})
    assert numbered.names == ("spent",)


class TestIds:
    @pytest.mark.parametrize("name", ["id", "ID", "", "Unnamed: 0", "row", "uuid"])
    def test_by_name(self, name):
        assert is_identifier(name, np.array([1.0, 1.0]))

    def test_a_running_number(self):
        assert is_identifier("no", np.random.default_rng(0).permutation(50) + 1000)

    def test_text_that_hardly_repeats(self):
        assert is_identifier("name", np.array([f"person {i}" for i in range(50)], object))

    @pytest.mark.parametrize(
        "cells",
        [np.linspace(0, 1, 50), np.arange(50) * 3, np.array(["a", "b"] * 25, object), np.arange(5)],
    )
    def test_real_columns_are_kept(self, cells):
        assert not is_identifier("x", cells)
