"""Tasks: what a user may ask. Each builds a request from a prepared picture, and parses the tokens into a result.

A task is checked when it is made and holds only what was asked; it runs on any engine, through a `TaskContext`.
`needs_grammar` says that its requests have a grammar to be compiled, for which the grammar engine must be loaded.
"""

from photon.tasks.caption import CaptionTask
from photon.tasks.context import TaskContext
from photon.tasks.detect import DetectTask
from photon.tasks.point import PointTask
from photon.tasks.query import QueryTask

Task = CaptionTask | QueryTask | PointTask | DetectTask

__all__ = ["CaptionTask", "DetectTask", "PointTask", "QueryTask", "Task", "TaskContext"]
