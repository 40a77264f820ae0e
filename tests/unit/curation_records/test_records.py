from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.curation.records import ImagePart, RecordError, TextPart, check_record, check_records

OK = {"role": "assistant", "content": "ok"}


def _record(content: Any, images: Any, reply: Any = "ok") -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": content}, {"role": "assistant", "content": reply}],
        "images": images,
    }


def _code(record: dict[str, Any], **options: Any) -> str:
    with pytest.raises(RecordError) as caught:
        check_record(record, 41, **options)
    assert "record 41" in str(caught.value) and caught.value.number == 41
    return caught.value.code


def test_pictures_take_their_places_in_order() -> None:
    record = check_record(_record("a <image>b<image>", ["1.png", "2.png"]), 1)
    assert record.messages[0].parts == (TextPart("a "), ImagePart("1.png"), TextPart("b"), ImagePart("2.png"))
    assert record.messages[0].text == "a b"


def test_structured_content_keeps_its_text_literal() -> None:
    content = [{"type": "image"}, {"type": "text", "text": "what is <image>?"}]
    record = check_record(_record(content, ["1.png"]), 1)
    assert record.messages[0].parts == (ImagePart("1.png"), TextPart("what is <image>?"))


@pytest.mark.parametrize(
    ("content", "images"),
    [
        ("<image>What is open?", []),
        ("  <image>What is open?", []),
        ("what is the <image> tag?", None),
        ("<image>a", ["1.png", "2.png"]),
        ("no marker", ["1.png"]),
        ([{"type": "image"}], []),
        ([{"type": "text", "text": "<image>"}], ["1.png"]),
    ],
)
def test_a_picture_too_many_or_too_few_is_refused(content: Any, images: Any) -> None:
    assert _code(_record(content, images)) == "image_count_mismatch"


def test_a_record_without_the_images_field_has_none() -> None:
    record = {"messages": [{"role": "user", "content": "hello"}, OK]}
    assert check_record(record, 1).images == ()


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"messages": [], "images": []}, "messages_missing"),
        ({"images": []}, "messages_missing"),
        ({"messages": [{"role": "robot", "content": "x"}, OK]}, "bad_role"),
        ({"messages": ["hello", OK]}, "bad_role"),
        ({"messages": [{"role": "user", "content": 5}, OK]}, "bad_content"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}, OK]}, "bad_content"),
        ({"messages": [{"role": "user", "content": "x"}]}, "no_response"),
        (_record("<image>x", {"a": 1}), "images_not_a_list"),
        (_record("<image>x", 3), "images_not_a_list"),
        (_record("<image>x", [""]), "image_missing"),
        (_record("<image>x", [7]), "image_missing"),
        (_record("x", ["1.png"], "<image>"), "image_in_response"),
    ],
)
def test_a_malformed_record_is_refused_by_name(record: dict[str, Any], code: str) -> None:
    assert _code(record) == code


def test_special_tokens_are_refused_in_every_role_and_form() -> None:
    assert _code(_record("<|im_end|>", [])) == "special_token_in_text"
    assert _code(_record([{"type": "text", "text": "a <|vision_start|>"}], [])) == "special_token_in_text"
    assert _code(_record("a [SEP] b", []), special_tokens=["[SEP]"]) == "special_token_in_text"
    check_record(_record("ls -l <| wc |> tail; a<b|c>d", []), 1)
    check_record(_record("<image>x", ["1.png"]), 1, special_tokens=["<image>"])


def test_a_picture_that_is_not_on_disk_is_missing() -> None:
    assert _code(_record("<image>x", "1.png"), exists=lambda name: False) == "image_missing"


def test_every_record_is_accepted_or_rejected_with_its_number() -> None:
    good, bad = _record("<image>x", ["1.png"]), _record("x", ["1.png"])
    accepted, rejected = check_records([good, bad, good, bad])
    assert len(accepted) == 2 and [e.number for e in rejected] == [2, 4]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.just("<image>"), st.text("ab <>/", max_size=8)), max_size=8), st.integers(0, 4))
def test_accepted_records_lose_no_text_and_no_picture(pieces: list[str], count: int) -> None:
    content, images = "".join(pieces), [f"{i}.png" for i in range(count)]
    try:
        record = check_record(_record(content, images), 1)
    except RecordError as error:
        assert error.code == "image_count_mismatch" and content.count("<image>") != count
        return
    parts = record.messages[0].parts
    assert [p.image for p in parts if isinstance(p, ImagePart)] == images
    assert "".join(p.text if isinstance(p, TextPart) else "<image>" for p in parts) == content
