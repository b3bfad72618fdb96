"""The code of docs/integrations.md runs as it is written, section by section."""

import importlib.util
import re
from pathlib import Path

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

GUIDE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")
START, *SECTIONS = re.split(r"^## ", GUIDE, flags=re.MULTILINE)
NEEDS = {"modAL": "modAL", "PyTorch": "torch", "Hugging Face": "datasets"}


def code(text):
    return "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")
@pytest.mark.filterwarnings("ignore:'force_all_finite' was renamed:FutureWarning")  # modAL's
@pytest.mark.parametrize("section", SECTIONS, ids=lambda text: text.partition("\n")[0])
def test_a_section_runs(section, tmp_path, monkeypatch):
    title = section.partition("\n")[0]
    needed = NEEDS.get(title)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}: make test-integrations")
    if title == "modAL" and parse_version(sklearn.__version__) >= parse_version("1.8"):
        pytest.skip("modAL 0.4.2 calls what scikit-learn 1.8 removed: make test-integrations")
    monkeypatch.chdir(tmp_path)
    source = code(START) + code(section)
    assert "import" in code(section) or "select_batch" in source
    exec(compile(source, f"docs/integrations.md, {title}", "exec"), {})
