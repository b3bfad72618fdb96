"""Progress: one line for people at a terminal, a line now and then in a log."""

import io
import json
import sys
import threading

from parbals.cli import output
from parbals.cli.output import progress, table


class Terminal(io.StringIO):
    def isatty(self):
        return True


def written(monkeypatch, stream, **options):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(output, "_PAUSE", 0.0)
    with progress("starting", **options) as show:
        show("reading", 0, 200)
        show("reading", 50, 200, "almost")
        show("choosing")
    return stream.getvalue()


def test_a_terminal_sees_each_stage_and_then_a_clean_line(monkeypatch):
    text = written(monkeypatch, Terminal())
    assert "reading" in text
    assert "50 of 200" in text
    assert "almost" in text
    assert "choosing" in text
    assert "\n" not in text
    assert text.endswith(output._CLEAR)


def test_no_line_is_wider_than_the_window(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    text = written(monkeypatch, Terminal())
    assert max(len(line) for line in text.split(output._CLEAR)) < 40


def test_at_80_columns_the_time_left_is_not_cut_off(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(output, "_PAUSE", 0.0)
    with progress("starting") as show:
        show("training on a fold", 0, 1000)
        show("training on a fold", 500, 1000, "12 minutes left in all")
        line = sys.stderr.getvalue().split(output._CLEAR)[-1]
    assert line.endswith("s left  12 minutes left in all")
    assert "█" in line
    assert len(line) < 80


def test_work_of_an_earlier_run_does_not_count_in_the_speed(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress("starting") as show:
        show("training", 60, 100)  # resumed here
        seconds[0] = 10.0
        show("training", 70, 100)
        line = sys.stderr.getvalue().split(output._CLEAR)[-1]
    assert line.endswith("70 of 100  10 s, 30 s left")


def test_a_log_gets_whole_lines_of_long_work_alone(monkeypatch):
    assert written(monkeypatch, io.StringIO()) == ""
    monkeypatch.setattr(output, "_LOG_PAUSE", 0.0)
    lines = written(monkeypatch, io.StringIO()).splitlines()
    assert lines[0] == "reading, 0 of 200"
    assert lines[1] == "reading, 50 of 200, less than a minute left, almost"
    assert len(lines) == 3


def test_a_log_says_what_is_computed_although_nothing_is_counted(monkeypatch):
    monkeypatch.setattr(output, "_SILENCE", 0.0)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    others = set(threading.enumerate())
    with progress("updating the report"):
        for timer in set(threading.enumerate()) - others:
            timer.join()
    assert stream.getvalue() == "updating the report …\n"


def test_a_quiet_command_gets_nothing(monkeypatch):
    assert written(monkeypatch, Terminal(), quiet=True) == ""


def test_columns_are_as_wide_as_their_widest_cell():
    assert table([("a", "bb"), ("ccc", "")]) == "a    bb\nccc"


def test_text_by_others_cannot_control_a_terminal(capsys):
    hostile = "red \x1b[31m\x9b2J back\r\u202eevil\x07"
    output.print_result(False, None, f"first\tline\n{hostile}")
    text = capsys.readouterr().out
    assert text.startswith("first\tline\nred \\u001b[31m\\u009b2J back\\u000d\\u202eevil")
    output.print_result(True, {"comment": hostile}, "")
    told = capsys.readouterr().out
    assert not any(letter in told for letter in "\x1b\x9b\r\u202e\x07")
    assert json.loads(told) == {"comment": hostile}
