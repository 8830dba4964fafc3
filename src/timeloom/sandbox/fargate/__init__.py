"""The Fargate sandbox: runs each program in a separate AWS Fargate task.

In reading order: `profile`, `scoped_settings`, `sandbox`, `execution`, `upload`, `tasks`, `broker_relay`, `cleanup`.
The code inside the task is in `timeloom.sandbox.remote`.
"""

from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.sandbox import FargateSandbox
from timeloom.sandbox.fargate.scoped_settings import scoped

__all__ = ["FargateProfile", "FargateSandbox", "scoped"]
