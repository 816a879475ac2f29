# SPDX-License-Identifier: BSD-2-Clause
"""README.md and the guides: what they tell a reader to type works, and prints what they show.

Each block of a page that is fenced with ```sh is a bash script, run by an ordinary user in a folder
of its own with urnic in build/.  A block fenced with ```text right behind it is an extract of the
output, in which numbers may differ.  The host has the address 192.0.2.7, as the pages say.
"""

import re
import shutil

import pytest

import lab
from tool import ucx_perftest

PAGES = [lab.ROOT / "README.md", *sorted((lab.ROOT / "docs/guides").glob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
# Ends with an error if a line does, or one of the programs that were left in the background
SCRIPT = "set -eo pipefail\n{}\nfor job in $(jobs -p); do wait $job || [ $? = 143 ]; done\n"

BLOCKS = [pytest.param(*found.groups(), id=f"{page.stem}-{number}")
          for page in PAGES for number, found in enumerate(BLOCK.finditer(page.read_text()), 1)]


def without_numbers(text):
    return re.sub(r"\b0x[0-9a-f]+|\d+", "N", re.sub(r"[ \t]+", " ", text))


@pytest.fixture(name="folder")
def a_folder(stage, tmp_path_factory):
    """An empty folder of user nobody's, with urnic in build/."""
    folder = stage.tmp / tmp_path_factory.mktemp("page").name
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "build").symlink_to(stage.path)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(name="computer")
def a_computer(shared_pair):
    host = shared_pair().a
    host.sh("ip addr add 192.0.2.7/24 dev eth0")
    yield host
    host.reap()
    host.sh("ip addr del 192.0.2.7/24 dev eth0")    # the pair's other tests have other GIDs


@pytest.mark.parametrize("script, output", BLOCKS)
def test_a_page_tells_the_truth(computer, folder, script, output):
    if "ucx_perftest" in script:
        script = script.replace("ucx_perftest", " ".join(ucx_perftest()))
    ran = computer.run("/bin/bash", "-c", f"cd {folder}\n" + SCRIPT.format(script), library=False,
                       env={"TMPDIR": str(folder)})
    for line in (output or "").splitlines():
        assert without_numbers(line) in without_numbers(ran.out), f"no {line!r}: {ran.describe()}"


def test_every_page_is_linked():
    """From README.md a reader reaches each guide, and no link leads nowhere."""
    reached = set()
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            target = (page.parent / link).resolve()
            assert target.exists(), f"{page.name}: {link}"
            reached.add(target)
    assert reached >= set(PAGES[1:]), set(PAGES[1:]) - reached
