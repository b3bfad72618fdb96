"""Start a study from the repository's root.

python studies                          # list all studies
python studies speed --report           # run studies/speed/run.py
python studies speed.libraries          # run studies/speed/libraries/run.py
python studies lib.rows --help          # run another script, studies/lib/rows.py
"""

import ast
import sys
from importlib import import_module
from pathlib import Path

STUDIES = Path(__file__).resolve().parent


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        print("\n".join(f"{name:26} {_question(name)}" for name in study_names()))
        return 0
    name = sys.argv.pop(1)
    module = _module(name)
    if module is None:
        names = ", ".join(study_names())
        print(f"There is no study {name!r}; choose one of {names}.", file=sys.stderr)
        return 2
    sys.argv[0] = f"studies {name}"
    sys.path[0] = str(STUDIES)  # absolute, because subprocesses of a study inherit it
    return import_module(module).main() or 0


def study_names() -> list[str]:
    """Every folder with a run.py, as a dotted path: speed.libraries, tasks."""
    folders = [path.parent.relative_to(STUDIES) for path in STUDIES.rglob("run.py")]
    return sorted(".".join(folder.parts) for folder in folders)


def _module(name: str) -> str | None:
    """The module that a command names: a study's run.py, or the script itself; None if neither."""
    path = STUDIES.joinpath(*name.split("."))
    if (path / "run.py").is_file():
        return f"{name}.run"
    if path.with_suffix(".py").is_file():
        return name
    return None


def _question(name: str) -> str:
    """The first line of the docstring of a study's run.py."""
    script = STUDIES.joinpath(*name.split("."), "run.py")
    docstring = ast.get_docstring(ast.parse(script.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
