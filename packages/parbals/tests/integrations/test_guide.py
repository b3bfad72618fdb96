"""The code of docs/integrations.md with all of its tools; elsewhere tests/docs runs the rest."""

import pytest
from pages import blocks_of

pytest.importorskip("modAL", reason="needs modAL: make test-integrations")
pytest.importorskip("torch", reason="needs PyTorch: make test-integrations")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_every_block_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = [block for block in blocks_of("docs/integrations.md") if block.language == "python"]
    assert len(blocks) >= 8
    for block in blocks:
        exec(compile(block.code, str(block), "exec"), names)
    assert (tmp_path / "run.jsonl").exists()
