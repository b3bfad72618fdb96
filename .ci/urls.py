"""Copies the project's addresses from the one place where they are set.

    python3 .ci/urls.py        what `make urls` does

``[project.urls]`` of the root's ``pyproject.toml`` is written between the marks of the files below,
and again after each change. As long as that table is empty, so are they.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LABELS = ("Homepage", "Documentation", "Source", "Issues", "Changelog")
"""What an index of packages shows beside a package."""
PACKAGES = [
    f"packages/{name}/pyproject.toml" for name in ("parbals", "parbals-label", "parbals-bench")
]
FIELDS = {
    "recipe/recipe.yaml": {
        "homepage": "Homepage",
        "documentation": "Documentation",
        "repository": "Source",
    },
    "CITATION.cff": {"url": "Homepage", "repository-code": "Source"},
}
"""{file: {its field: label}}."""
MARKS = re.compile(
    r"^(?P<indent> *)# urls: written by `make urls`\n(.*\n)*? *# end of urls\n", re.MULTILINE
)


def main(root: Path = ROOT) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    urls = project["urls"]
    for label, address in urls.items():
        if label not in LABELS or not address.startswith("https://"):
            sys.exit(
                f"pyproject.toml, [project.urls]: {label} = {address!r}; give one of "
                f"{', '.join(LABELS)} an address that begins with https://."
            )
    for file in PACKAGES:
        lines = [f'{label} = "{address}"' for label, address in urls.items()]
        write(root / file, ["[project.urls]", *lines] if lines else [])
    for file, fields in FIELDS.items():
        lines = [f"{field}: {urls[label]}" for field, label in fields.items() if label in urls]
        write(root / file, lines)


def write(path: Path, lines: list[str]) -> None:
    """Replace what stands between the marks of a file."""

    def block(marks: re.Match[str]) -> str:
        whole = ["# urls: written by `make urls`", *lines, "# end of urls"]
        return "".join(f"{marks['indent']}{line}\n" for line in whole)

    text, count = MARKS.subn(block, path.read_text("utf-8"))
    if count != 1:
        sys.exit(f"{path}: {count} places are marked for the addresses, instead of one.")
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
