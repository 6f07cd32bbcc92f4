"""Tasks: what a user may ask. Each builds a request from a prepared picture, and parses the tokens into a result.

A task is checked when it is made and holds only what was asked; it runs on any engine, through a `TaskContext`.
"""

from photon.tasks.base import Part, Task
from photon.tasks.caption import CaptionTask
from photon.tasks.context import TaskContext
from photon.tasks.detect import DetectTask
from photon.tasks.gaze import GazeTask
from photon.tasks.point import PointTask
from photon.tasks.query import QueryTask

__all__ = ["CaptionTask", "DetectTask", "GazeTask", "Part", "PointTask", "QueryTask", "Task", "TaskContext"]
