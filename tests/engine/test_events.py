import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import events
from engine.journal import KINDS, from_dict, to_dict
from tests.engine import story

EVERY_KIND = [
    story.CREATED,
    story.WORKER,
    events.Progress(what="loading", done=3, total=10),
    story.LOADED,
    story.diagnosed(),
    events.Attention(
        stage="stock",
        layer=1,
        head=2,
        text="letter",
        tokens=["<s>", "My"],
        top=[[[0, 1.0]], [[0, 0.9], [1, 0.1]]],
        received=[0.95, 0.05],
    ),
    story.SOURCE,
    story.started(),
    story.cut(),
    story.step(7),
    story.check(20, 70.0),
    events.Saved(number=1, step=20, file="state.safetensors", bytes=9),
    events.Paused(number=1, step=20),
    events.Continued(number=1, step=20),
    events.Resumed(number=1, step=20),
    events.Queued(plans=[{"targets": "sick"}]),
    events.Changed(number=1, step=20, values={"check_every": 5}),
    events.OutOfMemory(
        number=1, step=20, micro_batch=4, accumulate=2, offered_micro_batch=2, offered_accumulate=4, checkpointing=False
    ),
    story.ended(spreading=[2]),
    story.generated(),
    story.contributed(),
    events.StreamStarted(text="birds.txt", tokens=300, window=64),
    events.Streamed(
        stage="pass-1",
        text="birds.txt",
        text_sha256="ab" * 32,
        tokens=300,
        window=64,
        way="anchors",
        anchors=4,
        perplexity=40.0,
        tokens_per_second=120.0,
        cache_bytes=49_152,
    ),
    events.StreamEnded(outcome="stopped"),
    events.Undone(number=1),
    events.Accepted(number=1),
    events.Note(text="a note"),
    events.Refused(message="no"),
    events.Failed(message="out of memory"),
    events.Closed(),
]


def through_json(event):
    return json.loads(json.dumps(to_dict(event), allow_nan=False))


def test_there_is_an_example_of_every_kind():
    assert {event.kind for event in EVERY_KIND} == set(KINDS)
    assert len(KINDS) == len(events.Event.__subclasses__())  # no kind is used twice


@pytest.mark.parametrize("event", EVERY_KIND, ids=lambda event: event.kind)
def test_events_come_back_from_json(event):
    assert from_dict(through_json(event)) == event


@pytest.mark.parametrize("event", EVERY_KIND, ids=lambda event: event.kind)
def test_what_a_newer_program_adds_is_passed_over(event):
    data = through_json(event) | {"added": 1}
    for name in ("drift", "drift_training"):
        if name in data:
            data[name]["beyond"] = {}
            data[name]["outside"]["median"] = 0.1
    if "head_map" in data:
        data["head_map"]["sink_mass"] = []
    if event.kind == "generated":
        data["continuations"][0]["mood"] = "calm"
    if event.kind == "pass_started":
        data["corpus"][0]["language"] = "en"
    assert from_dict(data) == event


@pytest.mark.parametrize("event", EVERY_KIND, ids=lambda event: event.kind)
def test_a_line_that_lacks_a_field_is_passed_over(event):
    for field in fields(event):
        data = through_json(event)
        del data[field.name]
        assert from_dict(data) is None or not _required(field)


def _required(field):
    return field.default is field.default_factory  # both MISSING


@pytest.mark.parametrize("kind", [None, 3, "", "from_the_future", []])
def test_an_unknown_kind_is_passed_over(kind):
    assert from_dict({"kind": kind, "text": "x"}) is None


@pytest.mark.parametrize(
    "change",
    [{"zone_layers": ["a", "b"]}, {"zone_layers": [1]}, {"zone_heads": 3}, {"corpus": [1]}, {"corpus": {"a": 1}}],
)
def test_a_line_that_holds_something_else_is_passed_over(change):
    assert from_dict({**through_json(story.started()), **change}) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(EVERY_KIND), st.data())
def test_no_line_at_all_brings_the_reader_down(event, data):
    line = through_json(event)
    for name in data.draw(st.sets(st.sampled_from(sorted(line)))):
        line[name] = data.draw(json_values)
    found = from_dict(line)
    assert found is None or isinstance(found, events.Event)
