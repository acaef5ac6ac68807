"""Writes the resources of template.yaml under the checked settings to target/deploy, for the tests of test_security.py."""

from __future__ import annotations

import json

from resolve import Resolver
from settings import SETTINGS
from translate import ROOT, read, translate

if __name__ == "__main__":
    folder = ROOT / "target" / "deploy"
    folder.mkdir(parents=True, exist_ok=True)
    for name, parameters in SETTINGS.items():
        resources = Resolver(translate(read()), parameters).resources()
        (folder / f"{name}.json").write_text(json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}, indent=1))
