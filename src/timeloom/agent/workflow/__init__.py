"""Workflows: a product's code around the agent's turns.

Reading order: `base` (the class to override), `payload`, `react`, `phases`, `build_agent`, `services`, `driver` (calls
a workflow around a turn), `attach`, `turn_call`, `steps`, `supervise`, `faults`, `bundle_loads`, `parts`.
"""

from timeloom.agent.workflow.base import BaseWorkflow as BaseWorkflow
from timeloom.agent.workflow.payload import Payload as Payload
