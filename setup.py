"""What the package needs stands in one place: requirements.txt. All else is said in pyproject.toml."""

from pathlib import Path

from setuptools import setup

lines = Path(__file__).with_name("requirements.txt").read_text().splitlines()
setup(install_requires=[line.partition("#")[0].strip() for line in lines
                        if line.strip() and not line.startswith(("#", "-"))])
