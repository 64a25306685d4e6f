"""Put qcbench_cpu_shim.pth at the top of site-packages, so that every interpreter runs the import hook.

setuptools has no setting for a file beside the packages (`data-files` lands under the environment's
prefix, not in site-packages), hence this one build step.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

NAME = "qcbench_cpu_shim.pth"


class BuildWithPth(build_py):
    """Build the package as usual, then write the .pth file beside it."""

    def run(self) -> None:
        super().run()
        root = Path(self.build_lib)  # becomes the root of the wheel
        root.mkdir(parents=True, exist_ok=True)
        (root / NAME).write_text("import qcbench_cpu_shim\n", encoding="utf-8")


setup(cmdclass={"build_py": BuildWithPth})
