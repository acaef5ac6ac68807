"""Writes template.yaml to target/deploy for tests that run in other environments: translated, for ministack; and with
parameters put in, for test_security.py.
"""

from __future__ import annotations

import json

from resolve import Resolver
from settings import SETTINGS
from translate import ROOT, read, translate

if __name__ == "__main__":
    folder = ROOT / "target" / "deploy"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "translated.json").write_text(json.dumps(translate(read()), indent=1))
    for name, parameters in SETTINGS.items():
        resources = Resolver(translate(read()), parameters).resources()
        (folder / f"{name}.json").write_text(json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}, indent=1))
