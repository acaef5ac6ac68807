"""The CDK construct's resources, named as template.yaml names them.

`npm run synth` in infra/cdk writes the templates. Each resource carries its construct's path, and constructs are called
as the resources of template.yaml.
"""

from __future__ import annotations

import json
from pathlib import Path

from resolve import Resolver

TEMPLATES = Path(__file__).resolve().parents[2] / "infra" / "cdk" / "build" / "templates"


def resources(settings: str) -> dict[str, dict]:
    """What the construct would create under these settings."""
    template = json.loads((TEMPLATES / f"{settings}.json").read_text())
    names = {logical: _name(resource["Metadata"]["aws:cdk:path"]) for logical, resource in template["Resources"].items()}
    return Resolver(template, {}, rename=lambda logical: names[logical]).resources()


def _name(path: str) -> str:
    parts = [part for part in path.split("/")[2:] if part != "Resource"]
    # `Table/Resource` is Table; `Bucket/Policy/Resource` is BucketPolicy.
    return "".join(parts)
