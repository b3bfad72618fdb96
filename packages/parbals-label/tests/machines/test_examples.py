"""The example annotator as users run it."""

import sys

from repository import ROOT

EXAMPLES = ROOT / "examples" / "annotators"


def test_the_keyword_rule_says_what_it_found(label):
    words = [sys.executable, str(EXAMPLES / "keyword_rule.py"), "prize", "claim"]
    found = label(words)
    assert found.result.stored == 12
    assert {name for name, given in found.labels.items() if given == "spam"} == {
        "000",
        "003",
        "006",
        "009",
    }
    comments = {answer.comment for answer in found.answers if answer.label == "spam"}
    assert all("contains " in comment for comment in comments)
