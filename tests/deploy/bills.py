"""What is in each package: `bills.py CARGO_CYCLONEDX TRIPLE FOLDER` writes `FOLDER/<function>/sbom.cdx.json`.

cargo-cyclonedx writes the list of every member of the workspace beside its manifest, and names members by where they lie
on the machine. Only the functions' lists are kept, and they say nothing of the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from packages import BILL, FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
# What the tool puts before its own ending.
NAME = BILL.removesuffix(".json")


def members() -> list[Path]:
    """The folders of the workspace's members."""
    asked = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", str(ROOT / "Cargo.toml")]
    told = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    return [Path(package["manifest_path"]).parent for package in told["packages"]]


def write(tool: str, triple: str, folder: Path) -> None:
    """Writes the functions' lists, and leaves none behind."""
    command = [tool, "cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--target", triple,
               "--manifest-path", str(ROOT / "Cargo.toml"), "--override-filename", NAME]
    try:
        subprocess.run(command, check=True)
        for function in FUNCTIONS:
            text = (ROOT / "functions" / function.removeprefix("longhaul-") / BILL).read_text()
            (folder / function / BILL).write_text(text.replace(ROOT.as_uri(), "file:///longhaul"))
    finally:
        for member in members():
            (member / BILL).unlink(missing_ok=True)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
