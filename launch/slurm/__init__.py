"""Slurm: `job.sbatch` around the files of the plan's own backend."""

from ...plans.plan import Plan
from .native import native, objections, training_objections

__all__ = ["objections", "training_objections", "write_all"]


def write_all(plan: Plan) -> dict[str, str]:
    """The backend's files, the script of a machine and the job, by name."""
    from . import job

    return {**native(plan), **job.write(plan)}
