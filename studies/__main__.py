"""The one way to start a study, from the repository's root:

python studies                    the list of them
python studies growth --report    studies/growth/run.py
python studies lib.rows --help    another script of a folder
"""

import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    names = sorted(path.parent.name for path in HERE.glob("*/run.py"))
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        print("\n".join(f"{name:14} {_question(name)}" for name in names))
        return 0
    name = sys.argv.pop(1)
    file = HERE.joinpath(*name.split(".")).with_suffix(".py") if "." in name else HERE / name
    if name not in names and not file.is_file():
        print(f"There is no study {name!r}; choose one of {', '.join(names)}.", file=sys.stderr)
        return 2
    sys.argv[0] = f"studies {name}"
    sys.path[0] = str(HERE)  # absolute: a study's own processes are given it
    return import_module(name if "." in name else f"{name}.run").main() or 0


def _question(name: str) -> str:
    """The first sentence of the study's page, or its title where that is all."""
    return (HERE / name / "README.md").read_text("utf-8").splitlines()[0].removeprefix("# ")


if __name__ == "__main__":
    sys.exit(main())
