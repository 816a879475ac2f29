# SPDX-License-Identifier: BSD-2-Clause
"""recipes/: the script that puts urnic into a CI job, GitHub's action and GitLab's template that
call it, and the examples of whole jobs, of which every line is run as their runners run it."""

import os
import pathlib
import re
import subprocess

import pytest
from tool import ROOT, need

RECIPES = ROOT / "recipes"
SETUP = RECIPES / "ci-setup"

# The examples install packages; those that the check has installed are enough.
APT_GET = """#!/bin/sh
for word; do
    case $word in -* | update | install) continue ;; esac
    dpkg-query -W -f '${db:Status-Status}' "$word" | grep -qx installed || exit
done
"""


def parsed(path):
    yaml = pytest.importorskip("yaml")

    class Loader(yaml.SafeLoader):
        """GitLab's own tag: !reference [job, key]."""
    Loader.add_constructor("!reference", lambda loader, node:
                           ("reference", *loader.construct_sequence(node)))
    return yaml.load(path.read_text(), Loader)


@pytest.fixture(scope="module")
def tarball():
    subprocess.run(["make", "-s", "-o", "build", "tarball"], cwd=ROOT, check=True)
    [path] = (ROOT / "build").glob("urnic-*.tar.gz")
    return path


class Job:
    """A runner's folder, in which `urnic` is the clone, and the environment of its steps."""

    def __init__(self, tmp):
        self.folder = tmp
        (tmp / "urnic").symlink_to(ROOT)
        shims = tmp / "shims"
        shims.mkdir()
        for name, text in (("sudo", '#!/bin/sh\nexec "$@"\n'), ("apt-get", APT_GET)):
            (shims / name).write_text(text)
            (shims / name).chmod(0o755)
        clean = {k: v for k, v in os.environ.items()
                 if k in ("PATH", "HOME", "TMPDIR", "USER", "LANG", "URNIC_IN_USERNS")}
        self.env = {**clean, "PATH": f"{shims}:{clean['PATH']}", "MAKEFLAGS": "-o build"}

    def bash(self, text, **env):
        """Run the lines as both runners do, and return what they print."""
        r = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
                           cwd=self.folder, env={**self.env, **env}, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        assert r.returncode == 0, r.stdout
        return r.stdout


@pytest.fixture
def job(tmp_path):
    need("ibv_devinfo")
    return Job(tmp_path)


# The script

def ci_setup(job, *args, status=0, **env):
    r = subprocess.run([SETUP, *args], env={**job.env, **env}, text=True, cwd=job.folder,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert r.returncode == status, r.stderr
    assert r.stdout == ""
    return r.stderr


def test_the_script_shows_the_devices(job, tarball):
    for args in (("built",), ("unpacked", tarball), ("named", tarball, "-d", "lo")):
        assert "hca_id:\troce_" in ci_setup(job, *args)
        out = job.bash(f". {args[0]}/environment; ibv_devices; urnic version; command -v urnic")
        assert "roce_" in out
        assert f"{job.folder}/{args[0]}/" in out
    assert "roce_lo" in out


def test_the_script_takes_any_name(job, tarball):
    """A quote, what a shell would run, a colon, a dash; and a CDPATH that leads elsewhere."""
    (job.folder / "a:b.tar.gz").symlink_to(tarball)
    (job.folder / "other/here").mkdir(parents=True)
    for name in ("it's", "a'$(touch${IFS}x)'b", "-here", "here"):
        ci_setup(job, name, "a:b.tar.gz", CDPATH=str(job.folder / "other"))
        out = job.bash('. "$PWD/$DIR/environment"; command -v urnic', DIR=name)
        assert out == f"{job.folder}/{name}/urnic/urnic\n"
    assert not (job.folder / "x").exists()


def test_the_tarball_brings_its_libraries(job, tarball):
    """Beside the C library it needs nothing of the system."""
    ci_setup(job, "here", tarball)
    for name in ("urnic", "libibverbs.so.1", "librdmacm.so.1"):
        out = subprocess.run(["ldd", job.folder / "here/urnic" / name], check=True,
                             capture_output=True, text=True).stdout
        for lib, path in re.findall(r"(\S+) => (\S+)", out):
            outside = ("libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2")
            assert lib in outside or path.startswith(f"{job.folder}/here/urnic/"), out


def test_the_script_says_what_is_wrong(job, tarball, tmp_path):
    assert "usage: ci-setup DIR" in ci_setup(job, status=1)
    assert "nothing.tar.gz: no such file; `make tarball' makes one" in \
        ci_setup(job, "a", "nothing.tar.gz", status=1)
    broken = tmp_path / "broken"
    broken.write_text("not packed")
    assert f"{broken} cannot be unpacked" in ci_setup(job, "b", broken, status=1)
    written = tmp_path / "written"
    err = ci_setup(job, "c", tarball, "--log", "loud", status=1, GITHUB_ENV=str(written))
    assert "'loud'" in err
    # the dynamic loader and make would take it for two
    for source in ("", tarball):
        assert "space" in ci_setup(job, "two words", source, status=1, GITHUB_ENV=str(written))
    assert not (tmp_path / "two").exists() and not list(tmp_path.glob("two words/environment*"))
    # no device: an interface that does not exist
    err = ci_setup(job, "d", tarball, "--devices", "nonesuch", status=1, GITHUB_ENV=str(written))
    assert "no interface with an address has that name" in err
    (tmp_path / "bin").mkdir()
    for name in ("sh", "dirname"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    assert "install ibverbs-utils" in ci_setup(job, "e", tarball, status=1,
                                            PATH=str(tmp_path / "bin"))
    (tmp_path / "shims/ibv_devinfo").symlink_to("/bin/false")
    err = ci_setup(job, "f", tarball, status=1, GITHUB_ENV=str(written))
    assert f"ibv_devinfo sees no device; {tmp_path}/f/urnic/urnic doctor says why" in err
    assert not written.exists()
    assert not list(tmp_path.glob("?/environment*"))


# GitHub

def read_env(file):
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def action(job, given):
    """Run recipes/action.yml as a step with these inputs."""
    spec = parsed(RECIPES / "action.yml")
    assert spec["name"] and spec["description"] and spec["runs"]["using"] == "composite"
    assert set(given) <= set(spec["inputs"])
    value = {f"${{{{ inputs.{name} }}}}": given.get(name, i["default"])
             for name, i in spec["inputs"].items()}
    files = {name: job.folder / name for name in ("GITHUB_ENV", "GITHUB_PATH")}
    for step in spec["runs"]["steps"]:
        assert step["shell"] == "bash" and "${{" not in step["run"]
        for file in files.values():
            file.write_text("")
        job.bash(step["run"], RUNNER_TEMP=str(job.folder / "temp"),
                 GITHUB_ACTION_PATH=str(RECIPES), **{k: str(f) for k, f in files.items()},
                 **{k: str(value[v]) for k, v in step["env"].items()})
        job.env.update(read_env(files["GITHUB_ENV"]))
        for folder in files["GITHUB_PATH"].read_text().split():
            job.env["PATH"] = f"{folder}:{job.env['PATH']}"


def github(job, name, **more):
    """Run the one job of a workflow; return what its last step prints."""
    [spec] = parsed(RECIPES / "jobs" / name)["jobs"].values()
    assert spec["runs-on"]
    out = ""
    for step in spec["steps"]:
        if "run" in step:
            out = job.bash(step["run"])
        elif step["uses"] == "./urnic/recipes":
            action(job, {**step.get("with", {}), **more})
        else:
            assert step["uses"].startswith("actions/checkout@")
    return out


@pytest.mark.parametrize("packed", [False, True])
def test_pyverbs(job, tarball, packed):
    out = github(job, "pyverbs.github.yml", **({"from": tarball} if packed else {}))
    assert "1 passed" in out
    assert job.env["URNIC_LOG"] == "info"


def test_cargo_is_a_workflow():
    """No Rust is installed for the tests: the workflow is only read."""
    [spec] = parsed(RECIPES / "jobs/cargo.github.yml")["jobs"].values()
    steps = [s.get("uses") or s["run"] for s in spec["steps"]]
    assert steps.index("./urnic/recipes") < steps.index("cargo test")


# GitLab

def gitlab(job, name, **variables):
    """Run the one job of a file that includes the template."""
    spec = parsed(RECIPES / "jobs" / name)
    assert spec.pop("include") == [{"local": "urnic/recipes/gitlab.yml"}]
    template = parsed(RECIPES / "gitlab.yml")
    [this] = spec.values()
    base = template[this["extends"]]
    lines = []
    for line in this["before_script"] + this["script"]:
        if line[0] == "reference":
            assert line[1] == this["extends"]
            lines += base[line[2]]
        else:
            lines.append(line)
    env = {**base["variables"], **this["variables"], **variables}
    return job.bash("\n".join(lines), CI_PROJECT_DIR=str(job.folder),
                    **{k: str(v) for k, v in env.items()})


def test_a_c_program(job, tarball):
    for more in ({}, {"SETUP_FROM": tarball, "SETUP_OPTIONS": "-d lo"}):
        out = gitlab(job, "c.gitlab.yml", **more)
        assert re.search(r"^roce_\w+: lkey 0x\w+$", out, re.M), out
        assert re.search(r"^(\d+) of \1 devices$", out, re.M), out


def test_mpirun(job, tarball):
    need("mpirun.openmpi")
    out = gitlab(job, "mpirun.gitlab.yml", SETUP_FROM=tarball)
    assert "2 ranks, sum 1\n" in out


def test_each_job_is_tested():
    tested = pathlib.Path(__file__).read_text()
    for path in (RECIPES / "jobs").glob("*.yml"):
        assert path.name in tested
