"""References: what may enter a checkpoint, what may not, and that a secret is never repeated."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.core.references import KINDS, check_kinds, check_reference, check_references
from jumar.errors import InvalidReference

PLAIN = string.ascii_letters + string.digits + "_.-"

# Shapes of keys, made up here and valid nowhere.
SECRETS = {
    "an OpenAI or Anthropic API key": [
        "sk-" + "a1B2" * 12,
        "sk-proj-" + "a1B2" * 12,
        "sk-svcacct-" + "a1B2" * 12,
        "sk-ant-api03-" + "a1B2" * 12,
    ],
    "an AWS access key": ["AKIA" + "A1B2" * 4, "ASIA" + "Z9Y8" * 4],
    "a GitHub token": [f"gh{kind}_" + "a1B2" * 9 for kind in "pousr"] + ["github_pat_" + "a1B2" * 9],
    "a GitLab token": ["glpat-" + "a1B2" * 5],
    "a Slack token": [f"xox{kind}-" + "1234567890" for kind in "abeoprs"],
    "a Google API key": ["AIza" + "a1B2" * 9],
    "a Stripe key": [f"{kind}k_{mode}_" + "a1B2" * 4 for kind in "rsp" for mode in ("live", "test")],
    "a Hugging Face token": ["hf_" + "a1B2" * 9],
    "a PyPI token": ["pypi-" + "a1B2" * 9],
    "an npm token": ["npm_" + "a1B2" * 9],
    "a JSON web token": ["eyJ" + "a1B2" * 3 + ".eyJ" + "a1B2" * 3 + "." + "a1B2" * 3],
}


@pytest.mark.parametrize(("what", "secret"), [(what, secret) for what, some in SECRETS.items() for secret in some])
@pytest.mark.parametrize("around", ["claim:{}", "{}", "{}:x", "claim:x-{}-y", "claim:a b {}", "no kind {}", "weird:{}"])
def test_a_secret_is_refused_wherever_it_stands_and_never_repeated(what: str, secret: str, around: str) -> None:
    with pytest.raises(InvalidReference) as caught:
        check_reference(around.format(secret), KINDS)
    assert caught.value.what == f"a reference looks like {what}"
    assert secret not in str(caught.value)
    assert "where the secret is kept" in caught.value.hint


@pytest.mark.parametrize(
    "reference",
    [
        "task:risk-assessment-2024-quarterly",
        "item:desk-0123456789abcdef0123",
        "task:task_test_0123456789ab",
        "run:01890a5d-ac96-774b-bcce-b302099a8057",
        "commit:9fceb02d0ae598e95dc970b74767f19372d61af8",
        "doc:MAKIA0123456789ABCDEF",
    ],
)
def test_words_that_only_end_like_a_secrets_beginning_are_fine(reference: str) -> None:
    assert check_reference(reference, KINDS) == reference


@given(kind=st.sampled_from(sorted(KINDS)), identifier=st.text(PLAIN, min_size=1, max_size=15))
def test_a_kind_and_a_plain_id_may_enter(kind: str, identifier: str) -> None:
    assert check_reference(f"{kind}:{identifier}", KINDS) == f"{kind}:{identifier}"


def test_an_id_may_have_128_characters_and_no_more() -> None:
    assert check_reference("claim:" + "c" * 128, KINDS)
    with pytest.raises(InvalidReference, match="has 129 characters; at most 128"):
        check_reference("claim:" + "c" * 129, KINDS)


@pytest.mark.parametrize(
    ("reference", "what"),
    [
        ("claim", "has no kind"),
        ("", "has no kind"),
        ("claim:", "holds a character a reference may not have"),
        ("claim:c 17", "holds a character"),
        (" claim:c-17", "no declared kind"),
        ("claim:c-17 ", "holds a character"),
        ("claim:c-17\n", "holds a character"),
        ("claim:\nc-17", "holds a character"),
        ("claim:c\x0017", "holds a character"),
        ("claim:c\ud800", "holds a character"),
        ("claim:日", "holds a character"),
        ("claim:a:b", "holds a character"),
        ("claim:a/b", "holds a character"),
        ("https://user:secret@host", "'https' is no declared kind"),
        ("Claim:c-17", "no declared kind"),
        (":c-17", "no declared kind"),
        (17, "not int"),
        (None, "not NoneType"),
        (b"claim:c-17", "not bytes"),
    ],
)
def test_anything_else_is_refused_with_its_reason(reference: str, what: str) -> None:
    with pytest.raises(InvalidReference, match=what) as caught:
        check_reference(reference, KINDS)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_a_long_text_is_not_repeated_whole() -> None:
    with pytest.raises(InvalidReference) as caught:
        check_reference("prompt " * 500, KINDS)
    assert len(caught.value.what) < 120


def test_an_unknown_kind_is_told_how_to_declare_it() -> None:
    with pytest.raises(InvalidReference) as caught:
        check_reference("invoice:7", KINDS)
    assert "reference_kinds=" in caught.value.hint
    assert check_reference("invoice:7", check_kinds(["invoice"])) == "invoice:7"


def test_declared_kinds_add_to_the_known_ones() -> None:
    assert check_kinds([]) == KINDS
    assert check_kinds(["invoice", "my_kind-2"]) == KINDS | {"invoice", "my_kind-2"}


@pytest.mark.parametrize("kinds", ["invoice", b"invoice", 5, None, [""], ["Claim"], ["a b"], ["a:b"], [5], ["a" * 33]])
def test_what_is_no_list_of_plain_words_declares_nothing(kinds: list[str]) -> None:
    with pytest.raises(InvalidReference):
        check_kinds(kinds)


def test_several_references_keep_their_order() -> None:
    assert check_references(iter(["claim:b", "claim:a", "doc:1"]), KINDS) == ("claim:b", "claim:a", "doc:1")
    assert check_references([], KINDS) == ()


@pytest.mark.parametrize("references", ["claim:c-17", b"claim:c-17", None, 17])
def test_one_text_is_no_list_of_references(references: list[str]) -> None:
    with pytest.raises(InvalidReference, match="refs takes a list"):
        check_references(references, KINDS)


def test_one_bad_reference_spoils_the_list() -> None:
    with pytest.raises(InvalidReference, match="has no kind"):
        check_references(["claim:a", "b"], KINDS)


def test_a_checkpoint_holds_256_references_and_no_more() -> None:
    assert len(check_references([f"claim:{number}" for number in range(256)], KINDS)) == 256
    with pytest.raises(InvalidReference, match="257 references in one checkpoint; at most 256"):
        check_references([f"claim:{number}" for number in range(257)], KINDS)
