"""Who is cited: the paper by its authors, the same in CITATION.cff and in the documentation."""

import re

import parbals
import yaml
from repository import ROOT

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
PAPER = CITATION["preferred-citation"]
PAGE = (ROOT / "docs" / "howto" / "cite.md").read_text("utf-8")


def test_the_software_has_its_version_and_licence():
    assert CITATION["version"] == parbals.__version__
    assert CITATION["license"] == "Apache-2.0"


def test_the_page_cites_the_same_paper():
    entry = dict(re.findall(r"^  (\w+) += \{(.*)\}", PAGE, re.MULTILINE))
    authors = [f"{person['given-names']} {person['family-names']}" for person in PAPER["authors"]]
    assert entry["author"] == " and ".join(authors)
    assert entry["title"] == PAPER["title"]
    assert entry["journal"] == PAPER["journal"]
    assert entry["year"] == str(PAPER["year"])


def test_the_paper_is_as_old_as_its_number_says():
    """The number of an article on arXiv begins with its year and month."""
    (number,) = re.findall(r"arXiv:(\d{4})\.\d{5}", PAPER["journal"])
    assert PAPER["year"] == 2000 + int(number[:2])
    assert PAPER["url"].endswith(PAPER["journal"].split(":")[1])
