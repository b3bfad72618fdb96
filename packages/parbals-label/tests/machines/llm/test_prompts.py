"""What an LLM is shown, and what it must never be shown."""

import json

import pytest
from machine_projects import make_project
from parbals_label.answer_form import AnswerForm
from parbals_label.machines.llm.asking import Price
from parbals_label.machines.llm.endpoint import Completion
from parbals_label.machines.llm.examples import N_EXAMPLES, nearest_examples
from parbals_label.machines.llm.project import estimate, make_prompts
from parbals_label.machines.llm.prompt import (
    MAX_ITEM,
    Instructions,
    Unusable,
    label_confidence,
    read_label,
)
from parbals_label.project.features import features_of
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


@pytest.fixture
def store(tmp_path):
    folder = make_project(tmp_path / "spam", 30, labelled=12)
    with Store.open(folder) as opened:
        yield opened


def whole_prompt(store, position):
    (make,) = make_prompts(store)(store.visible_items([position])).values()
    return "\n".join(text for _, text in make().texts)


def test_the_prompt_has_guidelines_classes_and_descriptions(store):
    store.update_settings(guidelines="Is it spam?", descriptions={"spam": "sent to many"})
    text = whole_prompt(store, 20)
    assert "Is it spam?" in text
    assert "- spam: sent to many" in text
    assert "- ham\n" in text
    assert json.dumps(store.items([20])[0].content["message"]) in text


def test_examples_are_the_nearest_by_brute_force(store):
    features = features_of(store).astype(float)
    position = 25

    def cosine(other):
        a, b = features[position], features[other]
        return a @ b / ((a @ a) ** 0.5 * (b @ b) ** 0.5)

    best = sorted(range(12), key=lambda other: (-cosine(other), other))[:N_EXAMPLES]
    shown = nearest_examples(store, [position])[position]
    contents = [store.items([other])[0].content for other in best[::-1]]
    assert [example.content["message"] for example in shown] == [c["message"] for c in contents]


def test_no_label_of_a_program_and_no_measured_item_is_shown(store):
    unlabelled = [15, 16, 17, 18, 19]
    store.submit(
        [Submission(p, "spam") for p in unlabelled], annotator="machine:x", source="machine"
    )
    store.update_settings(audit=[0, 1, 2, 3, 4, 5, 6, 7, 8])
    shown = [e.content["message"] for e in nearest_examples(store, [25])[25]]
    allowed = {item.content["message"] for item in store.items([9, 10, 11])}
    measured = {item.content["message"] for item in store.items(range(9))}
    assert shown
    assert set(shown) <= allowed
    assert not set(shown) & measured


def test_an_item_is_not_an_example_of_itself(store):
    item = store.items([3])[0].content["message"]
    assert item not in [e.content["message"] for e in nearest_examples(store, [3])[3]]


def test_hidden_columns_are_not_shown(store):
    store.update_settings(hidden=["message"])
    assert "prize" not in whole_prompt(store, 20).replace("prize?", "")
    assert "{}" in whole_prompt(store, 20)


@pytest.mark.parametrize(
    ("task", "classes", "content", "expected"),
    [
        ("classes", ("a", "b"), '{"label": "b"}', "b"),
        ("ordinal", ("low", "high"), '{"label": "LOW"}', "LOW"),
        ("many-labels", ("a", "b"), '{"label": ["b", "a"]}', ["b", "a"]),
        ("many-labels", ("a", "b"), '{"label": []}', []),
        ("regression", (), '{"label": 3.5}', 3.5),
        ("regression", (), "3.5", "3.5"),
        ("classes", ("a", "b"), '{"label": null}', None),
    ],
)
def test_labels_of_every_task_are_read(task, classes, content, expected):
    form = AnswerForm(task, classes)
    assert read_label(Completion(content, None, "stop", (), None, None), form) == expected


@pytest.mark.parametrize(
    "content", ["", "   ", "{", "null", "[]", "NaN", '{"label": NaN}', "a or b"]
)
def test_what_is_no_label_is_unusable(content):
    form = AnswerForm("classes", ("a", "b"))
    with pytest.raises(Unusable):
        read_label(Completion(content, None, "stop", (), None, None), form)


def test_schemas_of_every_task():
    def label_schema(task, classes=()):
        return Instructions(AnswerForm(task, classes)).prompt({}).schema["properties"]["label"]

    assert label_schema("ordinal", ("a", "b"))["enum"] == ["a", "b", None]
    assert label_schema("many-labels", ("a", "b"))["items"]["enum"] == ["a", "b"]
    assert label_schema("regression") == {"type": ["number", "null"]}


def test_a_confidence_needs_the_tokens_of_the_reply():
    content = '{"label": "ham"}'
    tokens = (('{"label": "', -1.0), ("ham", -0.25), ('"}', -1.0))
    reply = Completion(content, None, "stop", tokens, None, None)
    assert label_confidence(reply, "ham") == pytest.approx(0.7788, abs=1e-4)
    assert label_confidence(reply, None) is None
    cut = Completion(content, None, "stop", tokens[:2], None, None)
    assert label_confidence(cut, "ham") is None


def test_long_items_are_cut():
    prompt = Instructions(AnswerForm(classes=("a", "b"))).prompt({"text": "x" * 200_000})
    assert prompt.n_bytes < MAX_ITEM + 2_000


def test_images_are_data_urls_and_hide_no_other_column():
    form = AnswerForm(classes=("cat", "dog"))
    prompt = Instructions(form).prompt({"place": "zoo"}, (), ("image/png", b"\x89PNG"))
    text, image = prompt.messages[1]["content"]
    assert "zoo" in text["text"]
    assert image["image_url"]["url"] == "data:image/png;base64,iVBORw=="
    assert prompt.n_images == 1
    assert "data:" not in prompt.texts[1][1]


def test_an_estimate_counts_what_is_left_and_sends_nothing(store):
    store.update_settings(audit=[20, 21])
    expected = estimate(store, Price(1.0, 10.0))
    n_copies = sum(position >= 12 for position, _ in store.settings.copies)
    assert expected.n_items == 30 - 12 - 2 - n_copies
    assert expected.cost == pytest.approx((expected.tokens_in + 10 * expected.tokens_out) / 1e6)
    assert estimate(store, None, 3).n_items == 3
    assert estimate(store, None).cost is None
    assert store.pending() == []
