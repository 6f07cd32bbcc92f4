"""What becomes of each picture's answer: shown, drawn, kept in a folder, or counted as a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from photon.cli.drawings import OutFolder, check_drawable, save_drawing
from photon.cli.options import SkillFlags
from photon.cli.output import answer_record, answer_text, put, say, say_fault, to_json
from photon.errors import ConstraintError, DeadlineError, ImageError, NumericsError, PhotonError
from photon.results import Result

FAILURES: dict[type[PhotonError], str] = {
    ImageError: "cannot be read",
    DeadlineError: "took too long",
    ConstraintError: "came to no valid answer",
    NumericsError: "came to no finite numbers",
}
NOT_SAVED = "could not be saved"


class Report:
    """Takes the outcomes of `images` in their order. BadParameter where nothing could be drawn or kept."""

    def __init__(self, flags: SkillFlags, images: Sequence[str]) -> None:
        if flags.draw is not None:
            check_drawable(flags.draw, images)
        self._flags, self._images = flags, images
        self._folder = None if flags.out is None else OutFolder(flags.out, images)
        self._num_taken = 0
        self._failures: Counter[str] = Counter()

    def take(self, outcome: Result | PhotonError) -> None:
        """The next picture's. What is no single picture's fault is raised: it would be every other's too."""
        image, index = self._images[self._num_taken], self._num_taken
        self._num_taken += 1
        if isinstance(outcome, PhotonError) and type(outcome) not in FAILURES:
            raise outcome
        if not self._flags.stream:
            self._show(image, outcome)
        if isinstance(outcome, PhotonError):
            self._failures[FAILURES[type(outcome)]] += 1
            if len(self._images) == 1 or not self._flags.json:
                say_fault(image, outcome)
        else:
            self._draw(image, outcome, index)
        if self._folder is not None:
            self._folder.add_answer(to_json(answer_record(image, outcome)))

    def close(self) -> None:
        if self._folder is not None:
            self._folder.close()

    def exit_code(self) -> int:
        """1 when a picture failed, and then a line that counts them, where there are several."""
        if not self._failures:
            return 0
        if len(self._images) > 1:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self._failures.most_common())
            say(f"{self._failures.total()} of {len(self._images)} pictures failed: {reasons}")
        return 1

    def _show(self, image: str, outcome: Result | PhotonError) -> None:
        if self._flags.json:
            put(to_json(answer_record(image, outcome)))
        elif isinstance(outcome, Result):
            put(answer_text(image, outcome, self._flags.objects, is_one_of_many=len(self._images) > 1))

    def _draw(self, image: str, result: Result, index: int) -> None:
        if result.truncated and not self._flags.json:
            say(f"{image}: the answer was cut by a limit")
        paths = [path for path in (self._flags.draw, self._folder and self._folder.paths[index]) if path]
        is_saved = [self._save(result, path) for path in paths]
        if not all(is_saved):
            self._failures[NOT_SAVED] += 1

    def _save(self, result: Result, path: Path) -> bool:
        try:
            save_drawing(result.draw(scores=self._flags.scores), path)
        except OSError as error:
            say(f"{path}: cannot be written: {error.strerror or error}")
            return False
        return True
