"""Connects the turns of a conversation with the workflow of its bundle."""

from dataclasses import replace

from timeloom.agent.workflow.base import BaseWorkflow
from timeloom.agent.workflow.driver import WorkflowDriver
from timeloom.agent.workflow.faults import place_of
from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.core.codes import CodedError
from timeloom.runtime.turn.loop import TurnRunner


def attach_workflow(turns: TurnRunner, parts: WorkflowParts) -> TurnRunner:
    """Return the runner whose turns the bundle's workflow runs; the same runner if the bundle has none."""
    workflow = parts.bundle.workflow
    return turns if workflow is None else replace(turns, workflow=WorkflowDriver(check_workflow(workflow), parts))


def check_workflow(workflow: type[object]) -> type[BaseWorkflow]:
    """Return the class if it is a workflow; raises `workflow_failed` with its place if it is none."""
    if not issubclass(workflow, BaseWorkflow):
        file, line = place_of(workflow)
        raise CodedError(
            "workflow_failed", f"{file}, line {line}: {workflow.__name__} must be a subclass of timeloom.BaseWorkflow"
        )
    return workflow
