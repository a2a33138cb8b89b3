"""Bearer tokens: how they are made, what is kept of them, and how one is found."""

import hashlib
import hmac

import pytest

from ykactor.access import moments, tokens
from ykactor.access.tokens import Tokens, TokensError

MADE, LATER = moments.at(0), moments.at(10**18)


def one(secret: str = "yk_x", identity: str = "ci") -> Tokens:
    return Tokens().with_new(secret, identity, MADE, LATER)


def test_a_token_is_random() -> None:
    """SE-4: 256 bits in base64url after ``yk_``, another one each time."""
    made = {tokens.make() for _ in range(100)}
    assert len(made) == 100
    assert all(tokens.is_token(token) and len(token) == 46 for token in made)
    assert not any(map(tokens.is_token, ("", "yk_", "yk_" + "a" * 42, "yk_" + "a" * 44, "yk_" + "ä" * 43, "xk_" + "a" * 43)))


def test_only_the_digest_is_kept() -> None:
    """SE-4: neither the file nor what is shown of a token has the token."""
    secret = tokens.make()
    kept = one(secret)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert (kept.all[0].sha256, kept.all[0].id) == (digest, digest[:8])
    assert secret.encode() not in tokens.text_of(kept)
    assert secret not in repr(kept.all)


def test_finding() -> None:
    """SE-4: the whole token finds itself, anything else nothing."""
    secret = tokens.make()
    kept = one(secret).with_new("yk_other", "ops", MADE, None)
    assert kept.find(secret) is kept.all[0]
    assert kept.find("yk_other") is kept.all[1]
    assert [kept.find(text) for text in ("", secret[:-1], secret + "x", secret.upper(), kept.all[0].sha256)] == [None] * 5


def test_something_is_always_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-4: in constant time, and as many digits for a token that nobody has as for one that is kept."""
    compared = []

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    kept = one("yk_a")
    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert (kept.find("yk_a"), kept.find("yk_b")) == (kept.all[0], None)
    assert compared == [(64, 64)] * 2


def test_an_id_is_unique() -> None:
    """SE-5: where 8 digits are taken, the id of the next token has more."""
    digest = tokens.digest_of("yk_b")
    taken = tokens.Token(id=digest[:8], sha256=digest[:8] + "0" * 56, identity="ci", created=MADE)
    both = Tokens([taken]).with_new("yk_b", "ci", MADE, None)
    assert [token.id for token in both.all] == [digest[:8], digest[:9]]


def test_revoking() -> None:
    """SE-5: only the token with this id is gone."""
    both = one("yk_a").with_new("yk_b", "ci", MADE, None)
    left = both.without(both.all[0].id)
    assert (left.find("yk_a"), left.find("yk_b")) == (None, both.all[1])


def test_the_text_of_a_file() -> None:
    """SE-5: what is written is read as the same tokens."""
    kept = one("yk_a").with_new("yk_b", "ops", MADE, None)
    assert tokens.parse(tokens.text_of(kept)).all == kept.all
    assert [token.expires_ns for token in kept.all] == [10**18, 2**63]


DIGEST = "ab" * 32
TOKEN = f'{{"id": "abababab", "sha256": "{DIGEST}", "identity": "ci", "created": "2026-01-01T00:00:00Z"}}'


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ("", "not a tokens file: "),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "missing required field `tokens`"),
        (f'{{"tokens": [{TOKEN}], "more": 1}}', "unknown field `more`"),
        ('{"a\\nb\\u001b": 1}', "unknown field `a\\nb\\x1b`"),
        (f'{{"tokens": [{TOKEN.replace(DIGEST, DIGEST + chr(92) + "n")}]}}', "at `$.tokens[0].sha256`"),
        (f'{{"tokens": [{TOKEN.replace("identity", "who")}]}}', "unknown field `who` - at `$.tokens[0]`"),
        (f'{{"tokens": [{TOKEN.replace("T00:00:00Z", "")}]}}', "at `$.tokens[0].created`"),
        (f'{{"tokens": [{TOKEN.replace(DIGEST, DIGEST[1:])}]}}', "at `$.tokens[0].sha256`"),
        (
            f'{{"tokens": [{TOKEN.replace("abababab", "babababa", 1)}]}}',
            "tokens[0].id: found babababa, expected the first digits",
        ),
        (f'{{"tokens": [{TOKEN}, {TOKEN}]}}', "tokens[1].id: found abababab a second time, expected each once"),
        (
            f'{{"tokens": [{TOKEN}, {TOKEN.replace("abababab", "ababababa", 1)}]}}',
            "found the same sha256 twice, expected each once",
        ),
    ],
)
def test_a_wrong_file(content: str, mistake: str) -> None:
    """SE-5: refused as a whole, with the place, and without a digest."""
    with pytest.raises(TokensError) as error:
        tokens.parse(content.encode())
    assert mistake in str(error.value)
    assert DIGEST[:20] not in str(error.value)
