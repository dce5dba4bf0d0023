"""What a real Slurm printed. Where it comes from: tests/recordings/slurm/README.md."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "recordings" / "slurm"


def recorded(name: str) -> str:
    return (FOLDER / name).read_text()


def refusals() -> list[str]:
    """Names of the recorded refusals of sbatch."""
    return sorted(path.stem for path in (FOLDER / "sbatch").glob("*.txt"))
