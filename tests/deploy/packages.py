"""The packages as Lambda would take them: `packages.py FOLDER ARCHITECTURE` checks what `make package` built.

A binary that asks for a newer C library than the runtime's dies at its start, which no emulator shows: they run it on the
machine's own library. So it is read from the files.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

ROOT = Path(__file__).resolve().parents[2]
# The list of what is in a package, in its folder.
BILL = "sbom.cdx.json"
FUNCTIONS = ("longhaul-api", "longhaul-worker", "longhaul-websocket", "longhaul-sweeper")
# What Amazon Linux 2023, and so `provided.al2023`, has.
GLIBC_MAX = (2, 34)
# The machine of the file, and the loader that must be there to start it.
MACHINES = {"arm64": ("EM_AARCH64", "/lib/ld-linux-aarch64.so.1"), "x86_64": ("EM_X86_64", "/lib64/ld-linux-x86-64.so.2")}
# Libraries that the runtime's image has: those of the C library, and GCC's for unwinding.
LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1",
             "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"}
# A cold start downloads the package. Over this, somebody should know why: the worker, with its documents, PDF and the model
# providers, is 14.1 MB, the others 8 to 12. AWS takes 50 MB.
ZIPPED_BYTES_MAX = 16_000_000


def versions(elf: ELFFile) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The versions of the C library that the file's symbols ask for."""
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, needed in section.iter_versions():
                for version in needed:
                    if version.name.startswith("GLIBC_"):
                        yield version.name, tuple(int(part) for part in version.name.removeprefix("GLIBC_").split("."))


def faults(binary: Path, architecture: str) -> Iterator[str]:
    """What is wrong with one binary."""
    machine, loader = MACHINES[architecture]
    with binary.open("rb") as file:
        elf = ELFFile(file)
        if elf["e_machine"] != machine:
            yield f"is for {elf['e_machine']}, not {machine}"
        loaders = [segment.get_interp_name() for segment in elf.iter_segments("PT_INTERP")]
        if loaders != [loader]:
            yield f"is started by {loaders}, not {loader}"
        for name, version in versions(elf):
            if version > GLIBC_MAX:
                yield f"needs {name}; the runtime has {'.'.join(map(str, GLIBC_MAX))}"
        dynamic = elf.get_section_by_name(".dynamic")
        for tag in dynamic.iter_tags("DT_NEEDED") if dynamic else ():
            if tag.needed not in LIBRARIES:
                yield f"needs {tag.needed}, which the runtime has not"
        for section in elf.iter_sections():
            if section.name == ".symtab" or section.name.startswith(".debug"):
                yield f"is not stripped: {section.name}"
    if not binary.stat().st_mode & 0o111:
        yield "may not be run"


def faults_of_bill(path: Path, function: str) -> Iterator[str]:
    """What is wrong with the list of what is in a package."""
    if not path.is_file():
        yield f"no list of what is in it ({BILL})"
        return
    text = path.read_text()
    if fault := JsonStrictValidator(SchemaVersion.V1_5).validate_str(text):
        yield f"{BILL} is no CycloneDX: {fault.data.message}"
        return
    bill = json.loads(text)
    named = bill.get("metadata", {}).get("component", {}).get("name")
    if named != function:
        yield f"{BILL} is that of {named}"
    found = {component["name"] for component in bill.get("components", [])}
    # Each of them has a runtime and a TLS library, whatever else.
    if missing := {"tokio", "rustls", "lambda_runtime"} - found:
        yield f"{BILL} does not list {sorted(missing)}"
    if str(ROOT) in text:
        yield f"{BILL} tells where it was made: {ROOT}"


def newest(binary: Path) -> str:
    """The newest version of the C library that it asks for."""
    with binary.open("rb") as file:
        return max(versions(ELFFile(file)), key=lambda found: found[1], default=("none", ()))[0]


def zipped_bytes(package: Path) -> int:
    """The size of a package as it is uploaded."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(package.rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(package))
    return len(packed.getvalue())


def check(folder: Path, architecture: str) -> list[str]:
    """What is wrong with the packages in a folder; prints their sizes."""
    found = []
    for name in FUNCTIONS:
        package = folder / name
        binary = package / "bootstrap"
        if not binary.is_file():
            found.append(f"{name}: there is no {binary}")
            continue
        found += [f"{name}: {fault}" for fault in faults(binary, architecture)]
        size, zipped = binary.stat().st_size, zipped_bytes(package)
        print(f"{name:20} {architecture:7} {size / 1e6:6.1f} MB, zipped {zipped / 1e6:5.1f} MB, C library {newest(binary)}")
        if zipped > ZIPPED_BYTES_MAX:
            found.append(f"{name}: {zipped} bytes zipped are over {ZIPPED_BYTES_MAX}")
        found += [f"{name}: {fault}" for fault in faults_of_bill(package / BILL, name)]
    documents = folder / "longhaul-worker" / "documents"
    if not any(documents.iterdir() if documents.is_dir() else ()):
        found.append(f"longhaul-worker: {documents} holds nothing that a job may name")
    return found


if __name__ == "__main__":
    faults_found = check(Path(sys.argv[1]), sys.argv[2])
    sys.exit("\n".join(faults_found) if faults_found else None)
