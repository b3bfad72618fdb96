"""What programs do wrong, one by one: nothing bad is stored, nothing good is lost, and no item
stays out."""

import re
import sys
import time

import pytest
from machine_projects import alive, stopping_after
from parbals.errors import InputError
from parbals_label.machines.programs import Program, split_command

GOOD = "for item in items(): say(item)\n"


def test_a_good_program_labels_everything(label, write):
    found = label(write(GOOD))
    assert (found.result.stored, found.result.ended, found.said) == (12, "done", [])
    assert {a.source for a in found.answers} == {"machine"}
    assert {a.annotator for a in found.answers} == {"machine:test"}
    assert found.out == []


def test_order_does_not_matter_and_other_keys_are_ignored(label, write):
    found = label(
        write(
            "for item in reversed(items()): say(item, 'spam', tokens=12, comment='c', "
            "confidence=0.5)\n"
        )
    )
    assert found.result.stored == 12
    assert found.answers[0].comment == '{"confidence":0.5,"comment":"c"}'


FAULTS = {
    "an unknown id": ("say({'id': 'nobody'})", "the id 'nobody' was not asked about"),
    "a doubled id": (
        "say(got[1], 'spam'); say(got[1], 'ham')",
        "was answered twice, 'spam' and then 'ham'",
    ),
    "noise": ("print('loading model: 100%')", "a line is not JSON: 'loading model: 100%'"),
    "a list": ("print('[1, 2]')", "a line is not an object"),
    "an endless line": ("print('x' * 1_200_000)", "a line is not JSON: 'xxxxx"),
    "no UTF-8": (
        "sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush()",
        "a line is not UTF-8",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_odd_lines_among_good_ones_are_ignored_and_told(label, write, fault):
    code, sentence = FAULTS[fault]
    found = label(write(f"got = items()\n{code}\nfor item in got: say(item)\n"), budget=4)
    assert found.result.stored == 4
    assert found.result.failed == 0
    assert any(sentence in said for said in found.said), found.said
    assert set(found.labels.values()) <= {"ham", "spam"}


BROKEN = {
    "a label outside the classes": (
        "say(bad, 'Maybe')",
        "its label 'Maybe' is not one of the classes",
    ),
    "a confidence of 7": ("say(bad, confidence=7)", "its confidence 7 is not a number from 0 to 1"),
    "partial output": ("pass", "no line about it came back"),
    "half a line": (
        "sys.stdout.write(json.dumps({'id': bad['id'], 'label': 'ham'})[:-3])",
        "no line about it",
    ),
    "exit code 3": (
        "print('no quota left', file=sys.stderr); sys.exit(3)",
        "exit code 3, saying: no quota left",
    ),
    "death": ("os.kill(os.getpid(), 9)", "it ended with signal SIGKILL"),
}


def test_items_that_fail_for_one_reason_share_a_sentence(label, write):
    found = label(write("sys.exit('no such model')"), retries=0)
    told = [said for said in found.said if said.startswith("No label")]
    assert len(told) == found.result.batches
    assert told[0].count("no such model") == 1
    assert " and " in told[0]
    assert told[0].endswith(
        " more: it ended with exit code 1, saying: no such model; they can be labelled later."
    )


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_missing_is_tried_again_and_then_given_back(label, write, fault):
    code, sentence = BROKEN[fault]
    body = f"""
turn()
for item in items():
    bad = item
    if item['id'] == '005':
        {code}
    else:
        say(item)
"""
    words = write(body)
    found = label(words, retries=2)
    assert found.result.stored == 11
    assert "005" not in found.labels
    assert (found.result.failed, found.out) == (1, [])
    (told,) = [said for said in found.said if said.startswith("No label")]
    assert told.startswith("No label for item '005': ")
    assert sentence in told
    assert told.endswith("it can be labelled later.")


def test_a_retry_asks_only_for_what_is_missing(label, write):
    body = """
n = turn()
for k, item in enumerate(items()):
    if n > 1 or k < 3: say(item, comment=f'turn {n}')
"""
    found = label(write(body), budget=4)
    assert found.result.stored == 4
    assert sorted(a.comment for a in found.answers) == ['{"comment":"turn 1"}'] * 3 + [
        '{"comment":"turn 2"}'
    ]


def test_what_was_received_before_silence_is_stored(label, write):
    """However slow its start: one that is ended too early is asked again and says the same."""
    body = "got = items()\nfor item in got[:2]: say(item)\n"
    body += "if len(got) > 2: time.sleep(600)\n"
    found = label(write(body), budget=4, timeout=1.0, retries=20)
    assert found.result.stored == 4


def test_silence_for_ever_ends_the_run_and_names_every_item(label, write):
    found = label(write("time.sleep(600)\n"), timeout=0.3, batch_size=2, retries=0)
    assert (found.result.ended, found.result.failed, found.out) == ("failed", 4, [])
    assert found.result.fault == "no usable answer came for 0.3 s"
    said = " ".join(line for line in found.said if found.result.fault in line)
    assert len(set(re.findall(r"'(\d{3})'", said))) == 4


def test_noise_for_ever_is_silence_too(label, write):
    body = "while True:\n  print('working ...', flush=True)\n  time.sleep(0.02)\n"
    assert label(write(body), timeout=0.4, batch_size=2, retries=0).result.fault.startswith(
        "no usable answer"
    )


def test_a_flood_is_cut_off(label, write):
    body = "while True: print('x' * 1000)\n"
    found = label(write(body), batch_size=2, retries=0)
    assert found.result.ended == "failed"
    assert "it wrote more than" in found.result.fault


def test_a_full_error_stream_does_not_block_it(label, write):
    body = "sys.stderr.write('warning\\n' * 100_000)\n" + GOOD
    found = label(write(body), budget=4)
    assert (found.result.stored, found.said) == (4, [])


def test_a_flood_of_errors_takes_no_space_on_the_disk(label, write, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    body = f"""
got = items()
block = 'warning ' * 8192 + '\\n'
for _ in range(1000):
    sys.stderr.write(block)
written = sum(f.stat().st_size for f in Path({str(tmp_path / "work")!r}).rglob("*") if f.is_file())
for item in got: say(item, comment=str(written < 1_000_000))
"""
    found = label(write(body), budget=4)
    assert {answer.comment for answer in found.answers} == {'{"comment":"True"}'}


def test_the_last_error_is_quoted_where_lines_are_missing_despite_exit_code_0(label, write):
    body = "print('busy', file=sys.stderr)\nprint('429 Too Many Requests', file=sys.stderr)\n"
    found = label(write(body), batch_size=2, retries=0)
    assert (found.result.ended, found.result.batches) == ("failed", 2)
    assert found.result.fault == (
        "no line about it came back (standard error ends with: 429 Too Many Requests)"
    )


def test_a_program_that_never_reads_is_still_heard(label, write):
    found = label(write("sys.exit(0)\n"), batch_size=2, retries=0)
    assert (found.result.ended, found.result.fault) == ("failed", "no line about it came back")


def test_exit_code_after_all_answers_keeps_them_and_is_told(label, write):
    found = label(write(GOOD + "sys.exit(9)\n"), budget=4)
    assert found.result.stored == 4
    assert found.said == ["All 4 items were answered, but it ended with exit code 9."]


def test_one_item_that_kills_the_program_does_not_take_the_others_along(label, write):
    body = """
for line in sys.stdin:
    item = json.loads(line)
    if item['id'] == '003': sys.exit(1)
    say(item)
"""
    found = label(write(body), batch_size=12, retries=3)
    assert found.result.stored == 11
    assert found.result.failed == 1


def test_children_end_with_the_program(label, write, tmp_path):
    seen = tmp_path / "child"
    body = f"""
import subprocess
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
Path({str(seen)!r} + "~").write_text(str(child.pid))
os.rename({str(seen)!r} + "~", {str(seen)!r})
time.sleep(600)
"""
    with stopping_after(seen) as stop:
        label(write(body), batch_size=1, stop=stop)
    while alive(int(seen.read_text())):
        time.sleep(0.05)


def test_a_program_that_cannot_be_started_ends_the_run_at_once(label, tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELFnonsense")
    broken.chmod(0o755)
    found = label([str(broken)])
    assert (found.result.ended, found.result.batches) == ("failed", 1)
    assert "cannot be started" in found.result.fault


def test_the_folder_of_images_is_told(tmp_path, write, label):
    from parbals_label.machines.programs import Program

    words = write("for item in items(): say(item, comment=os.environ['PARBALS_MEDIA'])\n")
    found = label(Program(words, str(tmp_path)), budget=1)
    assert str(tmp_path) in found.answers[0].comment


@pytest.mark.parametrize(
    "command", ["", "  ", "'open quote", "no-such-program-here x", "python3\0"]
)
def test_a_command_that_cannot_run_is_refused(command):
    with pytest.raises(InputError):
        split_command(command)


def test_nothing_in_a_command_is_expanded(label, write, tmp_path):
    words = [
        *write("for item in items(): say(item, comment=' '.join(sys.argv[1:]))\n"),
        "$HOME",
        ";",
        "touch",
        "*",
    ]
    found = label(words, budget=1)
    assert found.answers[0].comment == '{"comment":"$HOME ; touch *"}'


def test_names_come_from_the_script_rather_than_the_interpreter(tmp_path):
    script = tmp_path / "my rule.py"
    script.write_text("")
    assert Program([sys.executable, "-u", str(script), "x"]).name == "my rule"
    assert Program(["python3", "-m", "tools.rule"]).name == "tools.rule"
    assert Program(["/opt/bin/llm-label", "--fast"]).name == "llm-label"
    assert Program(["python3", "-c", "pass"]).name == "python3"


def test_the_key_of_an_llm_is_not_inherited(label, write, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-an-llm")
    monkeypatch.setenv("ANOTHER_KEY", "for-the-program")
    outcome = label(
        write("for item in items(): say(item, comment=' '.join(sorted(os.environ.values())))\n")
    )
    assert outcome.result.stored == 12
    assert "sk-of-an-llm" not in outcome.answers[0].comment
    assert "for-the-program" in outcome.answers[0].comment
