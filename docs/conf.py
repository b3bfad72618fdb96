"""The site: every Markdown page of the repository, and a reference made from the code.

    sphinx-build -W -c docs . build/docs        # what `make docs` does

The source folder is the repository's root, so that a link means the same here and on a code host.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_site"))

project = "parbals"
author = "The parbals developers"
copyright = "The parbals developers, Apache-2.0"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "reference",
    "notebooks",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "studies/**.md",
    "examples/*/README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # a page may begin its sections where it likes
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "parbals"
html_static_path = ["_site/style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sourcelink = False
