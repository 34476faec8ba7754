# What the clients fetch, as files: a repository, a page, and one package of each registry, "thing" 1.0.0. $1: the
# directory, $2: the address it will be served at. A certificate for localhost lies beside it.
set -euo pipefail
cd "$1"
mkdir -p root && cd root
echo 'the page' > x
git init -q -b main work && cd work
git -c user.name=A -c user.email=a@example.org commit -q --allow-empty -m 'the first'
cd .. && git clone -q --bare work repo.git && git -C repo.git update-server-info

/usr/bin/python3 - "$2" <<'END'
import base64, hashlib, io, json, os, sys, tarfile, zipfile
address = sys.argv[1]
def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(data if isinstance(data, bytes) else data.encode())
def tar(name, text, folder):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, words in [(name, text)] + ([("src/lib.rs", "")] if name == "Cargo.toml" else []):
            info = tarfile.TarInfo(f"{folder}/{path}"); info.size = len(words)
            archive.addfile(info, io.BytesIO(words.encode()))
    return packed.getvalue()
# PyPI: a page of links, and a wheel
wheel = io.BytesIO()
with zipfile.ZipFile(wheel, "w") as archive:
    archive.writestr("thing.py", "WORD = 'fetched'\n")
    archive.writestr("thing-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0.0\n")
    archive.writestr("thing-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    archive.writestr("thing-1.0.0.dist-info/RECORD", "")
put("pypi/thing-1.0.0-py3-none-any.whl", wheel.getvalue())
put("pypi/thing/index.html", '<a href="../thing-1.0.0-py3-none-any.whl">thing-1.0.0-py3-none-any.whl</a>')
# npm: a document and an archive
package = tar("package.json", json.dumps({"name": "thing", "version": "1.0.0"}), "package")
integrity = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()
version = {"name": "thing", "version": "1.0.0", "dist": {"tarball": f"{address}/npm-files/thing-1.0.0.tgz", "integrity": integrity}}
put("npm-files/thing-1.0.0.tgz", package)
put("npm/thing", json.dumps({"name": "thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))
# cargo: a sparse index and an archive
crate = tar("Cargo.toml", '[package]\nname = "thing"\nversion = "1.0.0"\nedition = "2021"\n', "thing-1.0.0")
put("crates/thing/1.0.0/download", crate)
put("index/config.json", json.dumps({"dl": f"{address}/crates"}))
entry = {"name": "thing", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(), "features": {}, "yanked": False}
put("index/th/in/thing", json.dumps(entry) + "\n")
END
