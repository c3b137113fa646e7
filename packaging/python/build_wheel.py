#!/usr/bin/env python3
"""Makes the wheel of the binary `overtake`, with the standard library only.

Usage: build_wheel.py BINARY VERSION GLIBC OUT, GLIBC being the version of the C library that the binary needs: 2.35.
Prints the wheel's path.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

# Wheels of one version and one binary are equal, byte for byte.
TIME = (2026, 1, 1, 0, 0, 0)


def main(binary, version, glibc, out):
    here = pathlib.Path(__file__).parent
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_x86_64"
    info = f"overtake-{version}.dist-info"
    files = {f"overtake/{path.name}": path.read_bytes() for path in sorted((here / "overtake").glob("*.py"))}
    files["overtake/bin/overtake"] = pathlib.Path(binary).read_bytes()
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: overtake\nVersion: {version}\nLicense: Apache-2.0\nRequires-Python: >=3.9\n"
        "Summary: An in-memory database that speaks PostgreSQL's protocol, for tests, and a gate before PostgreSQL\n"
        "Classifier: Framework :: Pytest\n"
    ).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: overtake\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    files[f"{info}/entry_points.txt"] = (
        b"[console_scripts]\novertake = overtake.__main__:main\n\n[pytest11]\novertake = overtake.pytest_plugin\n"
    )
    files[f"{info}/LICENSE"] = (here / "../../LICENSE").read_bytes()
    record = [f"{name},sha256={digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    path = pathlib.Path(out) / f"overtake-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            wheel.writestr(entry, data, compresslevel=9)
    print(path)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
