"""The Fargate sandbox: each program in a task of its own on AWS, which this machine starts, follows and clears away."""

from timeloom.sandbox.fargate.descriptors import scoped
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.sandbox import FargateSandbox

__all__ = ["FargateProfile", "FargateSandbox", "scoped"]
