"""template.yaml as CloudFormation gets it: read, and translated by the SAM transform.

cfn-lint looks into no `AWS::Serverless::*` resource, so a fault in one shows only behind the translation.
"""

from __future__ import annotations

import copy
import json
import sys
from functools import cache
from pathlib import Path

from samcli.yamlhelper import yaml_parse
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"

# What `sam deploy` would put in the place of a local folder.
UPLOADED = "s3://uploads/{}.zip"
# The transform asks for the partition, which it takes from the region.
REGION = "us-east-1"


@cache
def _parsed(path: Path) -> dict:
    return yaml_parse(path.read_text())


def read(path: Path = TEMPLATE) -> dict:
    """The template as it is written, with the short forms of functions made long."""
    return copy.deepcopy(_parsed(path))


def translate(template: dict) -> dict:
    """What the SAM transform makes of a template. Raises `InvalidDocumentException` where it refuses it."""
    template = copy.deepcopy(template)
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::Function" and not str(properties["CodeUri"]).startswith("s3://"):
            properties["CodeUri"] = UPLOADED.format(name)
    session = _Session()
    translator = Translator({}, Parser(), boto_session=session)
    return translator.translate(sam_template=template, parameter_values={})


class _Session:
    """All that the transform asks of an AWS session."""

    region_name = REGION


if __name__ == "__main__":
    json.dump(translate(read(Path(sys.argv[1]) if len(sys.argv) > 1 else TEMPLATE)), sys.stdout, indent=1)
