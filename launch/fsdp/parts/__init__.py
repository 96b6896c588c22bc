"""Sources of the emitted `fsdp_plan.py`: real modules, so that they are linted, typed and tested as such.

The package never imports them (they need torch); `write` pastes the ones a plan needs.
"""
