"""What stands beside a model's weights may have been written by anybody, or be damaged."""

import json

import pytest
from parbals.errors import InputError
from parbals_label.encoders.huggingface import Pooling, configured_pooling


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1_Pooling/config.json", []),
        ("1_Pooling/config.json", "cls"),
        ("sentence_bert_config.json", [128]),
        *(
            ("sentence_bert_config.json", {"max_seq_length": length})
            for length in ("128", [128], -5, 2**70, 1.5, float("inf"))
        ),
        ("modules.json", {"type": "Normalize"}),
        ("modules.json", [1, 2]),
    ],
)
def test_a_configuration_of_another_kind_is_refused_in_a_sentence(tmp_path, name, content):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=path.name):
        configured_pooling(tmp_path)


def test_what_is_missing_or_empty_is_the_default(tmp_path):
    assert configured_pooling(tmp_path) == Pooling()
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": null}')
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.Normalize"}]')
    assert configured_pooling(tmp_path) == Pooling(normalise=True)
