"""torchtitan: `torchtitan_args.sh` for 0.3, `torchtitan_0_2.toml` for 0.2."""

from .limits import objections, training_objections

__all__ = ["objections", "training_objections"]
