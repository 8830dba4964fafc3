"""The Fargate sandbox: each program in a task of its own on AWS, which this machine starts, follows and clears away."""

from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.sandbox import FargateSandbox
from timeloom.sandbox.fargate.scoped_settings import scoped

__all__ = ["FargateProfile", "FargateSandbox", "scoped"]
