"""What pyproject.toml cannot say: which packages there are, and that every build starts clean."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py


class CleanBuild(build_py):
    """Copy into an empty folder: a file that an earlier build left must not reach a wheel."""

    def run(self) -> None:
        shutil.rmtree(Path(self.build_lib, "perm_gpu"), ignore_errors=True)
        super().run()


setup(
    # raw_kernels/ lies beside perm_gpu/, where a search for packages does not see it.
    packages=[*find_packages(include=["perm_gpu", "perm_gpu.*"]), "perm_gpu.raw_kernels"],
    cmdclass={"build_py": CleanBuild},
)
