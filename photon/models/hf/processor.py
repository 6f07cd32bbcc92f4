"""A model's own processor: chat template, tokenizer and image processor. No model and no weights.

Some processors want torchvision for videos, which nobody shows them here: without it they are made without that part.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from photon.errors import ModelError, RequestError


class ChatProcessor:
    """Texts, with a picture or without, to the tensors that the model takes. Safe from many threads: one at a time."""

    def __init__(self, folder: Path, config: Any, *, has_vision: bool) -> None:
        self._has_vision = has_vision
        self._processor = _load_processor(folder, config.model_type) if has_vision else _load_tokenizer(folder)
        self._hf_tokenizer = self._processor.tokenizer if has_vision else self._processor
        self.needs_image = config.model_type == "paligemma"
        self._lock = threading.Lock()
        backend = getattr(self._hf_tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ModelError(f"the tokenizer in {folder} has no tokenizer.json, which Photon needs")
        self.tokenizer_json: str = backend.to_str()
        self.num_tokens = 1 + max(backend.get_vocab(with_added_tokens=True).values())
        self._control = [str(token) for token in self._hf_tokenizer.all_special_tokens]

    @property
    def eos_id(self) -> int | None:
        return self._hf_tokenizer.eos_token_id

    def __call__(self, text: str, picture: Image.Image | None) -> dict[str, Tensor]:
        """RequestError for a text that holds a control token: it would not be read as text."""
        for token in self._control:
            if token in text:
                raise RequestError(f"the text holds {token!r}, which is a control token of this model")
        with self._lock:
            made = self._chat(text, picture) if self._processor.chat_template else self._plain(text, picture)
        return {name: value for name, value in made.items() if isinstance(value, Tensor)}

    def _chat(self, text: str, picture: Image.Image | None) -> Any:
        said: Any = [{"type": "text", "text": text}] if self._has_vision else text
        if picture is not None:
            said = [{"type": "image", "image": picture}, *said]
        return self._processor.apply_chat_template(
            [{"role": "user", "content": said}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )

    def _plain(self, text: str, picture: Image.Image | None) -> Any:
        """Of a model that was not trained to chat: the text alone, behind the picture."""
        if picture is None:
            return self._hf_tokenizer(text, return_tensors="pt")
        return self._processor(text=[self._processor.image_token + text], images=[picture], return_tensors="pt")


def _load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(f"{folder} has no tokenizer that transformers can read: {error}") from error


def _load_processor(folder: Path, model_type: str) -> Any:
    import transformers
    from transformers.models.auto import processing_auto

    name = vars(processing_auto)["PROCESSOR_MAPPING_NAMES"].get(model_type)  # no public name; AutoProcessor's own
    if name is None:
        raise ModelError(f"transformers has no processor for models of type {model_type!r}")
    kind = getattr(transformers, name)
    try:
        if "video_processor" in kind.get_attributes() and find_spec("torchvision") is None:
            kind = _without_videos(kind)
        return kind.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise ModelError(
            f"{folder} has no processor ({name}) that transformers can read, such as processor_config.json, "
            f"preprocessor_config.json and tokenizer.json: {error}"
        ) from error


def _without_videos(kind: Any) -> Any:
    """The processor class with nothing in its video processor's place."""
    from transformers import AutoImageProcessor, AutoTokenizer

    class WithoutVideos(kind):
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if argument_name == "video_processor":
                return None
            return super().check_argument_for_proper_class(argument_name, argument)

        @classmethod
        def _get_arguments_from_pretrained(cls, folder: Any, processor_dict: Any = None, **options: Any) -> list[Any]:
            parts = {"tokenizer": AutoTokenizer, "image_processor": AutoImageProcessor}
            return [
                parts[name].from_pretrained(folder, **options) if name in parts else None
                for name in kind.get_attributes()
            ]

    WithoutVideos.__init__ = kind.__init__  # its signature names the parts
    WithoutVideos.__name__ = kind.__name__
    return WithoutVideos
