"""What gets installed: the wheel's content, its metadata, and kernels that are found everywhere."""

import ast
import importlib.metadata
import shutil
import site
import sys
import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import perm_gpu
from processes import run

ROOT = Path(__file__).resolve().parents[2]
NOT_SOURCES = (".*", "*.egg-info", "__pycache__", "build", "dist", "results")
STALE_KERNEL = "kernel_that_was_deleted.cu"
WHERE = (
    "import perm_gpu; from perm_gpu.toolchains import raw_kernels_folder; "
    "print(perm_gpu.__file__, raw_kernels_folder(), sep='\\n')"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the sources in which an earlier build left a kernel that no longer exists."""
    copy = tmp_path_factory.mktemp("source") / "perm_gpu"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    leftover = copy / "build" / "lib" / "perm_gpu" / "raw_kernels" / STALE_KERNEL
    leftover.parent.mkdir(parents=True)
    leftover.write_text("")
    return copy


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    run(*build, cwd=checkout)
    return only_wheel(folder)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A folder that holds what site-packages would hold after `pip install`."""
    return unpack(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def distribution(installed) -> Distribution:
    [distribution] = importlib.metadata.distributions(path=[str(installed)])
    return distribution


def only_wheel(folder: Path) -> Path:
    [path] = folder.glob("*.whl")
    return path


def unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def names(folder: Path, pattern: str) -> set[str]:
    """The files below `folder` that fit `pattern`, relative to it."""
    return {path.relative_to(folder).as_posix() for path in folder.glob(pattern)}


# ---- the wheel --------------------------------------------------------------------------------


def test_wheel_holds_the_kernels_that_git_holds(installed):
    if (ROOT / ".git").exists():
        listed = run("git", "ls-files", "raw_kernels/*.cu", cwd=ROOT).split()
        expected = {Path(path).name for path in listed}
    else:
        expected = names(ROOT / "raw_kernels", "*.cu")
    assert names(installed / "perm_gpu" / "raw_kernels", "*") == expected
    assert expected


def test_wheel_leaves_out_what_an_earlier_build_left_behind(installed):
    assert not names(installed, f"**/{STALE_KERNEL}")


def test_wheel_holds_every_module_and_the_type_marker(installed):
    assert names(installed, "**/*.py") == names(ROOT, "perm_gpu/**/*.py")
    assert (installed / "perm_gpu" / "py.typed").is_file()


def test_wheel_holds_nothing_but_the_package(installed, distribution):
    assert names(installed, "*") == {"perm_gpu", f"perm_gpu-{distribution.version}.dist-info"}


def test_wheel_is_pure_python(wheel, distribution):
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "Root-Is-Purelib: true" in distribution.read_text("WHEEL").splitlines()


# ---- metadata ---------------------------------------------------------------------------------


def literal_version() -> str:
    """The version as written in perm_gpu/__init__.py, which a build reads without importing it."""
    for statement in ast.parse((ROOT / "perm_gpu" / "__init__.py").read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant(value=value)):
                return value
    pytest.fail("perm_gpu/__init__.py assigns no literal to __version__")


def test_versions_agree(distribution):
    assert perm_gpu.__version__ == literal_version() == distribution.version


def test_installed_version_agrees():
    try:
        version = importlib.metadata.version("perm-gpu")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("perm-gpu runs from a checkout here and is not installed")
    assert version == literal_version(), "the version changed: install the package again"


def test_python_and_torch_that_the_wheel_asks_for(distribution):
    assert distribution.metadata["Requires-Python"] == ">=3.10"
    assert "torch>=2.6" in distribution.requires


def required(distribution: Distribution, extra: str) -> list[Requirement]:
    """What `pip install perm-gpu[extra]` asks for, through extras that name other extras too."""
    found = []
    for requirement in map(Requirement, distribution.requires):
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name == distribution.name:
            for inner in requirement.extras:
                found += required(distribution, inner)
        else:
            found.append(requirement)
    return found


def test_no_extra_combines_both_cupy_wheels(distribution):
    cupy = {
        extra: {item.name for item in required(distribution, extra) if item.name.startswith("cupy")}
        for extra in ("", *distribution.metadata.get_all("Provides-Extra"))
    }
    assert {extra: wheels for extra, wheels in cupy.items() if wheels} == {
        "cuda12": {"cupy-cuda12x"},
        "cuda13": {"cupy-cuda13x"},
    }


@pytest.mark.parametrize("major", ["12", "13"])
def test_numba_toolchain_has_the_major_of_its_extra(distribution, major):
    requirements = {item.name: item for item in required(distribution, f"cuda{major}")}
    assert requirements["numba-cuda"].extras == {f"cu{major}"}


def test_console_script_can_be_called(distribution):
    [script] = distribution.entry_points
    assert (script.group, script.name) == ("console_scripts", "perm-gpu")
    assert callable(script.load())


# ---- the kernels are found --------------------------------------------------------------------


def found_from(printed: str) -> tuple[Path, Path]:
    """The imported package's folder and the kernels' folder, from what WHERE prints."""
    module, kernels = printed.splitlines()
    return Path(module).parent, Path(kernels)


def test_kernels_are_found_in_a_wheel_install(installed, tmp_path):
    printed = run(sys.executable, "-c", WHERE, cwd=tmp_path, PYTHONPATH=str(installed))
    package = installed / "perm_gpu"
    assert found_from(printed) == (package, package / "raw_kernels")


def test_kernels_are_found_in_a_bare_checkout(checkout, tmp_path):
    printed = run(sys.executable, "-c", WHERE, cwd=tmp_path, PYTHONPATH=str(checkout))
    assert found_from(printed) == (checkout / "perm_gpu", checkout / "raw_kernels")


def test_kernels_are_found_in_an_editable_install(checkout, tmp_path):
    build = "import sys; from setuptools import build_meta; build_meta.build_editable(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path, cwd=checkout)
    installed = unpack(only_wheel(tmp_path), tmp_path / "installed")
    # This environment may hold an editable install of the checkout under test. -S leaves out its
    # .pth file, and the order of the two folders its finder, which has the same name.
    start = "import site, sys; site.addsitedir(sys.argv[1]); sys.path += sys.argv[2:]; "
    command = (sys.executable, "-S", "-c", start + WHERE, installed, *site.getsitepackages())
    printed = run(*command, cwd=tmp_path, PYTHONPATH="")
    assert found_from(printed) == (checkout / "perm_gpu", checkout / "raw_kernels")
