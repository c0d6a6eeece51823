"""What do we depend on, and under which licences? One line per package that an installation brings along.

``python benchmarks/supply_chain.py`` lists what ``pip install phasecast`` needs, ``--extra torch`` (dask, numpyro, …)
what an extra adds. Claimed: every package states its licence, and none of them is the GPL or the AGPL. Known
vulnerabilities of the pinned versions are looked up by ``pip-audit`` (docs/security.md), which asks a service on the
network, so that this script does not.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

STRONG = re.compile(r"\b(A?GPL|GNU (Affero )?General Public)", re.IGNORECASE)
LESSER = re.compile(r"\b(LGPL|Lesser General Public)", re.IGNORECASE)


def needed(root: str, extras: set[str]) -> dict[str, Distribution]:
    """All packages that ``root`` with these extras requires in this environment, by name."""
    from packaging.requirements import Requirement

    found: dict[str, Distribution] = {}
    waiting = [Requirement(f"{root}[{','.join(sorted(extras))}]" if extras else root)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        for text in found[name].requires or ():
            other = Requirement(text)
            if other.marker is None or any(other.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(other)
    return dict(sorted(found.items()))


def licence(package: Distribution) -> str:
    """What a package says of its licence: the SPDX expression, the classifiers, or the field of older packages."""
    facts = package.metadata
    if facts["License-Expression"]:
        return facts["License-Expression"]
    classified = [
        words.rpartition(" :: ")[2] for words in facts.get_all("Classifier") or () if words.startswith("License ::")
    ]
    words = " / ".join(one for one in classified if one != "OSI Approved")
    stated = (facts["License"] or "").strip().splitlines()
    return words or (stated[0][:60] if stated else "") or _by_file(package)


def _by_file(package: Distribution) -> str:
    """The first line of a licence file, where the metadata says nothing."""
    for path in package.files or ():
        if re.search(r"(LICEN[CS]E|COPYING)", path.name, re.IGNORECASE):
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            return f"{lines[0][:60]} ({path.name})" if lines else ""
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", action="append", default=[], help="also what this extra needs")
    packages = needed("phasecast", set(parser.parse_args().extra))
    packages.pop("phasecast", None)
    named = {name: licence(package) for name, package in packages.items()}
    width = max(map(len, named), default=0)
    for name, words in named.items():
        print(f"{name:<{width}}  {packages[name].version:<16}  {words or 'not stated'}")
    unknown = [name for name, words in named.items() if not words]
    strong = [name for name, words in named.items() if STRONG.search(LESSER.sub("", words))]
    print(f"{len(named)} packages; licence not stated: {unknown or 'none'}; GPL or AGPL: {strong or 'none'}")
    assert not unknown
    assert not strong


if __name__ == "__main__":
    main()
