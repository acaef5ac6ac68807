"""An issuer of tokens for a first try and for tests: a key, its published form, and tokens signed with it.

A deployment that people use takes the tokens of an identity provider. This stands in for one: `issuer.py key FOLDER`
makes a key and `jwks.json`, which you publish under an https address; `issuer.py token FOLDER …` prints a token.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_ID = "first-try"
SCOPES = "jobs:read jobs:write jobs:operate"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def make_key(folder: Path) -> None:
    """Makes `key.pem`, which only its owner may read, and `jwks.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with os.fdopen(os.open(folder / "key.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
    numbers = key.public_key().public_numbers()
    (folder / "jwks.json").write_text(json.dumps({"keys": [{
        "kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID,
        "n": _text(numbers.n.to_bytes(256, "big")), "e": _text(numbers.e.to_bytes(3, "big")),
    }]}))


def mint(folder: Path, *, issuer: str, audience: str, tenant: str, subject: str = "first-user", scope: str = SCOPES,
         seconds: int = 3600) -> str:
    """A token of this issuer."""
    key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    now = int(time.time())
    parts = [
        {"alg": "RS256", "typ": "at+jwt", "kid": KEY_ID},
        {"iss": issuer, "aud": audience, "sub": subject, "tenant": tenant, "scope": scope, "iat": now, "exp": now + seconds},
    ]
    signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{_text(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Keys and tokens for a first try.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("key", help="make a key and jwks.json").add_argument("folder", type=Path)
    token = commands.add_parser("token", help="print a token")
    token.add_argument("folder", type=Path)
    for name in ("issuer", "audience", "tenant"):
        token.add_argument(f"--{name}", required=True)
    said = parser.parse_args()
    if said.command == "key":
        make_key(said.folder)
    else:
        print(mint(said.folder, issuer=said.issuer, audience=said.audience, tenant=said.tenant))
