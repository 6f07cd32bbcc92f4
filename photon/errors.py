"""Every error that Photon raises on purpose; each message names the bad value and what would be right."""


class PhotonError(Exception):
    """Base of all of Photon's errors."""


class ConfigError(PhotonError, ValueError):
    """An engine option that does not exist, is out of range, or asks for hardware that is absent."""


class RequestError(PhotonError, ValueError):
    """A request that cannot be served as asked: a parameter out of range, a prompt too long for the context."""


class ImageError(PhotonError, ValueError):
    """Input that is no image, is truncated, or exceeds the pixel limit."""


class ModelError(PhotonError):
    """A model that cannot be found or loaded: unknown recipe, missing, surplus or misshapen tensor."""


class ConstraintError(PhotonError):
    """A grammar that does not compile, an answer that reached a state where nothing may be said, or one whose value the
    schema refuses: then `text` is what was said."""

    def __init__(self, message: str, *, text: str | None = None) -> None:
        super().__init__(message)
        self.text = text


class NumericsError(PhotonError, ArithmeticError):
    """The model's logits were not finite, so that no token could be sampled. Ends the one request."""


class DeadlineError(PhotonError, TimeoutError):
    """The timeout of a call was over before its answer was whole; the message says how far it had got."""


class EngineError(PhotonError, RuntimeError):
    """The engine is closed, or its tick thread has died; `__cause__` holds the reason."""
