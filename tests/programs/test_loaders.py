# SPDX-License-Identifier: BSD-2-Clause
"""Whichever way a program loads the RDMA libraries, `urnic run` gives it urnic's."""

import os
import pathlib
import subprocess
import sys

import pytest

import lab
from tool import BUILD, good, urnic

SYSTEM = pathlib.Path("/usr/lib/x86_64-linux-gnu")
LIB = BUILD / "lib"
LIBRARIES = ["libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"]

WHICH = """
import re
def which():
    # The RDMA libraries that the process has mapped.
    return sorted({l.split()[-1] for l in open("/proc/self/maps")
                   if re.search(r"/lib(ibverbs|rdmacm|ibumad)\\.so", l)})
"""


def loaded(code, *args, **kw):
    """The RDMA libraries that Python has loaded under `urnic run` when the code has run."""
    out = good("run", "--", sys.executable, "-c",
               "import ctypes, os, sys\n" + WHICH + code + "\nprint(*which())", *args, **kw)
    return [pathlib.Path(p) for p in out.split()]


def names(library):
    """The names and paths by which programs load it."""
    system = SYSTEM / library
    assert system.exists(), f"{library} is not installed"
    stem = library.rpartition(".")[0]
    return [library, stem, str(system), os.path.realpath(system), f"/nowhere/{stem}"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_name_means_ours(library):
    for name in names(library):
        got = loaded("ctypes.CDLL(sys.argv[1])", name)
        assert LIB / library in got and {p.parent for p in got} == {LIB}, name


@pytest.mark.parametrize("library", LIBRARIES)
def test_found_by_ctypes(library):
    """find_library() asks the cache of ldconfig."""
    got = loaded("""
import ctypes.util
name = ctypes.util.find_library(sys.argv[1])
assert name, name
ctypes.CDLL(name)""", library[3:].partition(".")[0])
    assert LIB / library in got and {p.parent for p in got} == {LIB}


def test_in_a_namespace_of_its_own():
    got = loaded("""
libc = ctypes.CDLL(None)
libc.dlmopen.restype = ctypes.c_void_p
libc.dlmopen.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]
assert libc.dlmopen(-1, sys.argv[1].encode(), os.RTLD_NOW)""", str(SYSTEM / LIBRARIES[0]))
    assert {p.parent for p in got} == {LIB}


@pytest.mark.parametrize("name", ["libibverbs.so.10", "libibverbs.so.1x", "libibverbs.sox",
                                  "libxibverbs.so.1", "libibverbs.so.", "libibverbs-x.so"])
def test_other_names_stay(tmp_path, name):
    """A library with such a name is loaded as it is named."""
    (tmp_path / name).write_bytes((SYSTEM / "libm.so.6").read_bytes())
    out = good("run", "--", sys.executable, "-c", """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
print(any(sys.argv[1] in l for l in open("/proc/self/maps")))""", str(tmp_path / name))
    assert out == "True\n"


def test_a_path_to_an_urnic_stays():
    stage = lab.Stage(BUILD)
    try:
        got = loaded("ctypes.CDLL(sys.argv[1])", str(stage.lib / LIBRARIES[0]))
        assert got == [stage.lib / LIBRARIES[0]]
    finally:
        stage.remove()


def test_after_chroot_a_program_gets_what_it_names(tmp_path):
    (tmp_path / "libibverbs.so.1").write_bytes((SYSTEM / "libm.so.6").read_bytes())
    out = good("run", "--", sys.executable, "-c", """
import ctypes, os, sys
os.chroot(sys.argv[1])
assert ctypes.CDLL("/libibverbs.so.1").cos
print("right")""", str(tmp_path))
    assert out == "right\n"


def test_errors_stay():
    """What the loader says of a library that is not there, and dlopen(NULL)."""
    out = good("run", "--", sys.executable, "-c", """
import ctypes
ctypes.CDLL(None).malloc
try:
    ctypes.CDLL("/nowhere/libibv.so.1")
except OSError as e:
    print(e)""")
    assert "/nowhere/libibv.so.1: cannot open shared object file" in out


def compiled(path, text, *options):
    source = path.with_suffix(".c")
    source.write_text(text)
    subprocess.run(["gcc", "-Wall", "-o", path, source, *options], check=True)
    return path


def test_dlopen_from_a_library_with_an_rpath(tmp_path):
    """The RPATH of the library that calls dlopen() comes before LD_LIBRARY_PATH."""
    caller = compiled(tmp_path / "libcaller.so", """
#include <dlfcn.h>
void *load(const char *name) { return dlopen(name, RTLD_NOW); }
""", "-shared", "-fPIC", "-Wl,--disable-new-dtags", f"-Wl,-rpath,{SYSTEM}")
    got = loaded("""
load = ctypes.CDLL(sys.argv[1]).load
load.restype = ctypes.c_void_p
assert load(b"libibverbs.so.1")""", str(caller))
    assert {p.parent for p in got} == {LIB}


DEVICES = """
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
	int n = 0;

	ibv_get_device_list(&n);
	printf("%d\\n", n);
	return 0;
}
"""


def test_a_program_with_an_rpath_is_told(tmp_path):
    program = compiled(tmp_path / "program", DEVICES, "-Wl,--disable-new-dtags",
                       f"-Wl,-rpath,{SYSTEM}", "-libverbs")
    ran = urnic("run", "--", str(program))
    assert ran.stdout == "0\n"
    assert ran.stderr.count("\n") == 1
    assert f"error: program uses {SYSTEM}/libibverbs.so.1, which is not urnic's" in ran.stderr
    # Not by its parents, but itself; and what the line says helps.
    ran = urnic("run", "--", "sh", "-c", f"true; {program}; true")
    assert ran.stderr.count("which is not urnic's") == 1
    ran = urnic("run", "--", str(program), env={"LD_PRELOAD": str(LIB / LIBRARIES[0])})
    assert int(ran.stdout) > 0 and ran.stderr == ""


def test_a_program_with_a_runpath_needs_nothing(tmp_path):
    """DT_RUNPATH comes after LD_LIBRARY_PATH."""
    program = compiled(tmp_path / "program", DEVICES, "-Wl,--enable-new-dtags",
                       f"-Wl,-rpath,{SYSTEM}", "-libverbs")
    ran = urnic("run", "--", str(program))
    assert int(ran.stdout) > 0 and ran.stderr == ""


# --- who builds with pkg-config or CMake ---------------------------------------------

@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The prefix of an installation."""
    top = tmp_path_factory.mktemp("installed")
    subprocess.run(["make", "-s", "-o", "build", "install", f"DESTDIR={top}", "PREFIX=/opt/u"],
                   cwd=lab.ROOT, check=True)
    return top / "opt/u"


def output(*command, **kw):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **kw).stdout


def test_pkg_config(tmp_path, installed):
    """The program is linked with the system's library, and runs on urnic."""
    def pkg_config(*asked):
        return output("pkg-config", *asked, "urnic", env={
            **os.environ, "PKG_CONFIG_PATH": installed / "lib/pkgconfig"}).split()

    program = compiled(tmp_path / "program", DEVICES, *pkg_config("--cflags", "--libs"))
    assert "RPATH" not in output("readelf", "-d", program)
    assert int(output(*pkg_config("--variable=run"), program)) > 0
    assert pkg_config("--modversion") == good("version").split()[1:]
    [folder] = pkg_config("--variable=libdir")
    assert (pathlib.Path(folder) / "libibverbs.so.1").exists()


def test_cmake(tmp_path, installed):
    (tmp_path / "program.c").write_text(DEVICES.replace("return 0", "return n < 1"))
    version = good("version").split()[1]
    (tmp_path / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.18)
project(user C)
enable_testing()
find_package(urnic {version} REQUIRED)
add_executable(program program.c)
target_link_libraries(program urnic::ibverbs)
urnic_add_test(NAME target COMMAND program with arguments)
urnic_add_test(NAME other COMMAND sh -c "test $LD_LIBRARY_PATH = {installed}/lib/urnic")
add_test(NAME without COMMAND program)
""")
    build = tmp_path / "build"
    output("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}")
    output("cmake", "--build", build)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
    ran = subprocess.run(["ctest", "--test-dir", build], text=True, stdout=subprocess.PIPE,
                         env=clean, check=False).stdout
    assert [line.split()[-3].strip("*.") for line in ran.splitlines()
            if "Test #" in line] == ["Passed", "Passed", "Failed"], ran


def test_cmake_without_the_headers(tmp_path, installed):
    (tmp_path / "CMakeLists.txt").write_text("""
cmake_minimum_required(VERSION 3.18)
project(user NONE)
set(URNIC_VERBS_LIBRARY URNIC_VERBS_LIBRARY-NOTFOUND)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH FALSE)
find_package(urnic REQUIRED)
""")
    ran = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build",
                          f"-DCMAKE_PREFIX_PATH={installed}"], text=True,
                         stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    assert ran.returncode and "libibverbs and its headers" in ran.stderr
