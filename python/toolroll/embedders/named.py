"""Makes an embedder from its name, for Python, the command line and settings alike."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Union

from toolroll.model.embedder import Embedder, EmbedsTexts, as_embedder, fault_of
from toolroll.model.errors import EmbedderUnavailable, InvalidInput, NotFound, nearest, quoted
from toolroll.runtime.plugins import known_names, offered_by, plugin

EmbedderChoice = Union[EmbedsTexts, str, None]  # noqa: UP007  a protocol has no | at run time in 3.10

# name → module, class or function, arguments, and whether its vectors are worth storing on disk.
_LOCAL: dict[str, tuple[str, str, dict[str, Any], bool]] = {
    "static": ("static", "StaticEmbedder", {}, False),
    "minilm": ("minilm", "minilm_and_table", {}, True),
    "minilm-f32": ("minilm", "minilm_and_table", {"precision": "float32"}, True),
    "minilm-base": ("minilm", "MiniLMEmbedder", {"tuned": False}, True),
    "multilingual": ("multilingual", "MultilingualEmbedder", {}, True),
    "hashing": ("hashing", "HashingEmbedder", {}, False),
}
# provider → module, class, whether it waits for a server, and the form of the text after the colon.
_OF_MODELS = {
    "ollama": ("remote", "OllamaEmbedder", True, "MODEL[@URL]"),
    "openai": ("remote", "OpenAICompatibleEmbedder", True, "MODEL[@BASE_URL]"),
    "sentence-transformers": (
        "sentence_transformers",
        "SentenceTransformersEmbedder",
        False,
        "MODEL_OR_PATH",
    ),
}
_BUILT_IN = (*_LOCAL, "none", *_OF_MODELS)
KNOWN = ", ".join([*_LOCAL, "none", *(f"{name}:{form}" for name, (*_, form) in _OF_MODELS.items())])
GROUP = "toolroll.embedders"  # the group of entry points, which are functions that make an embedder


def embedder(choice: EmbedderChoice) -> Embedder | None:
    """The embedder of that name, with a cache and, if it waits for a server, a guard; None for "none".

    A name that is not built in is looked up among the entry points of installed packages (`GROUP`). An object
    is returned as it is, with defaults for missing members: no cache, no guard.

    Raises:
        NotFound: there is no such name; the message lists the known ones, and asks for the nearest.
        EmbedderUnavailable: its extra is not installed, or its server or model is unavailable.
        InvalidInput: `choice` is no embedder, or an installed package makes none; the message says why.
    """
    if choice is None:
        return None
    if not isinstance(choice, str):
        if not any(hasattr(choice, member) for member in ("embed", "identity", "dim")):
            raise InvalidInput(f"embedder: is {quoted(choice)}, must be an Embedder, None or one of {KNOWN}")
        return as_embedder(choice)
    return maker(choice)()


def maker(choice: str) -> Callable[[], Embedder | None]:
    """Makes the embedder of that name when it is called.

    Raises:
        NotFound: there is no such name; the message lists the known ones.
        InvalidInput: the name needs a model and has none, or its package cannot be imported.
    """
    if choice == "none":
        return lambda: None
    if choice in _LOCAL:
        return lambda: _local(*_LOCAL[choice])
    provider, colon, model = choice.partition(":")
    if provider not in _OF_MODELS:
        make = plugin(GROUP, provider)
        if make is None:
            known = known_names(GROUP, _BUILT_IN)
            installed = known[len(_BUILT_IN) :]
            raise NotFound(
                f"embedder {quoted(choice)}: unknown; known are {', '.join([KNOWN, *installed])}"
                f"{nearest(provider, known)}"
            )
        return lambda: _from_package(choice, provider, make, [model] if colon else [])
    module, name, waits, form = _OF_MODELS[provider]
    if not model or model.startswith("@"):
        raise InvalidInput(f"embedder {quoted(choice)}: names no model, must be {provider}:{form}")
    return lambda: _of_model(module, name, waits, model)


def _local(module: str, name: str, arguments: dict[str, Any], is_kept: bool) -> Embedder:
    made: Embedder = _class(module, name)(**arguments)
    return _cached(made) if is_kept else made


def _of_model(module: str, name: str, waits: bool, model: str) -> Embedder:
    if not waits:
        return _cached(_class(module, name)(model))
    model, at, url = _model_and_url(model)
    made = _class(module, name)(model, url) if at else _class(module, name)(model)
    return _cached(_class("guarded", "GuardedEmbedder")(made))


def _from_package(choice: str, name: str, make: Any, arguments: list[str]) -> Embedder:
    """The embedder of an installed package, with a cache unless it is instant."""
    try:
        made = make(*arguments) if callable(make) else make
    except Exception as error:  # the other package's function may raise anything
        sentence = f"{_entry_point(choice, name)} fails: {type(error).__name__}: {error}"
        if isinstance(error, (TypeError, ValueError)):  # the text after the colon is wrong, or the function
            raise InvalidInput(sentence) from error
        raise EmbedderUnavailable(sentence, retry_after_s=getattr(error, "retry_after_s", None)) from error
    if fault := fault_of(made):
        raise InvalidInput(f"{_entry_point(choice, name)} makes {fault}, must make an Embedder")
    found = as_embedder(made)
    return found if found.is_instant else _cached(found)


def _entry_point(choice: str, name: str) -> str:
    """The beginning of an error message about an installed package."""
    package = offered_by(GROUP, name)
    return f"embedder {quoted(choice)}: the entry point {name!r} of {GROUP} (package {package})"


def _model_and_url(model: str) -> tuple[str, str, str]:
    """Model and address: a name may hold an @, an address begins with its scheme."""
    at = max(model.find("@http://"), model.find("@https://"))
    return (model, "", "") if at < 0 else (model[:at], "@", model[at + 1 :])


def _cached(made: Embedder) -> Embedder:
    cached: Embedder = _class("cached", "CachedEmbedder")(made)
    return cached


def _class(module: str, name: str) -> Any:
    """The class, imported on first use: `import toolroll` must not import an extra."""
    return getattr(import_module(f"toolroll.embedders.{module}"), name)
