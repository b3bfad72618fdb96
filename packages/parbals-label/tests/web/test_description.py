"""The API against its own description: whatever is sent, status and shape are as described.

Requests are made up by schemathesis from the description that the running server serves.
"""

import hypothesis
import pytest
from dose import small_and_full
from hypothesis import HealthCheck, settings
from page_server import make_project, page

schemathesis = pytest.importorskip("schemathesis")

from schemathesis.specs.openapi.checks import (  # noqa: E402
    negative_data_rejection,
    positive_data_acceptance,
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    folder = make_project(tmp_path_factory.mktemp("fuzzed") / "mail", n_items=30, queued=25)
    with page(folder) as server:
        yield server


@pytest.fixture(scope="module")
def described(fuzzed):
    schema = schemathesis.openapi.from_dict(fuzzed.get("/api/openapi.json").json)
    schema.config.update(base_url=f"http://127.0.0.1:{fuzzed.port}")
    return schema


def operations(schema):
    return [result.ok() for result in schema.get_all_operations()]


@pytest.mark.parametrize("examples", small_and_full(2, 200))
@pytest.mark.parametrize("mode", ["positive", pytest.param("negative", marks=pytest.mark.full)])
def test_every_answer_is_one_that_is_described(fuzzed, described, mode, examples):
    generation = schemathesis.GenerationMode(mode)
    headers = {"Authorization": f"Bearer {fuzzed.token}"}
    tried = set()
    for operation in operations(described):
        try:
            strategy = operation.as_strategy(generation_mode=generation)
        except schemathesis.errors.SchemathesisError:
            if mode == "positive":
                raise
            continue  # nothing can be wrong with a route that takes nothing

        @hypothesis.given(case=strategy)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def check(case):
            response = case.call(headers=headers)
            assert response.status_code != 500, response.text
            # What the description cannot know, such as which labels are classes, may be refused.
            excluded = [positive_data_acceptance]
            # In an address a list of one number reads as that number.
            if any(isinstance(v, list) and len(v) == 1 for v in (case.query or {}).values()):
                excluded.append(negative_data_rejection)
            case.validate_response(response, excluded_checks=excluded)

        try:
            check()
        except hypothesis.errors.Unsatisfiable:
            assert mode == "negative"
            continue
        tried.add(operation.label)
    assert len(tried) >= (9 if mode == "positive" else 7), tried
