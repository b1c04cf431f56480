"""Parameters as attributes. `_config` has a class for every section, with its keys."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from . import _native
from ._errors import InputError

Size = str | int
"""A number of bytes, or a text such as `"8GiB"`."""

Table = Mapping[str, Any]
"""A section whose keys depend on its `preset`."""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _view(root: Root, path: str, value: object, kind: type[Section] | None) -> Any:
    if isinstance(value, dict):
        return (kind or Section)._of(root, path)
    return value


class Section:
    """A section of a configuration. Its parameters are attributes, by the keys of TOML files."""

    _root: Root
    _path: str

    @classmethod
    def _of(cls, root: Root, path: str) -> Self:
        section = cls.__new__(cls)
        object.__setattr__(section, "_root", root)
        object.__setattr__(section, "_path", path)
        return section

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = self._root._resolved
        for part in filter(None, self._path.split(".")):
            values = values.get(part, {})
        return values

    def _key(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values = self._values()
        if name in values:
            return _view(self._root, self._key(name), values[name], self._kind(name))
        if name in type(self).__annotations__:
            kind = self._kind(name)
            optional = str(type(self).__annotations__[name]).endswith("| None")
            # A section in which no key is set is empty, and still takes assignments.
            return kind._of(self._root, self._key(name)) if kind and not optional else None
        known = ", ".join(sorted(values))
        raise AttributeError(f"unknown key '{self._key(name)}' (known: {known})", name=name, obj=self)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        elif isinstance(value, Mapping):
            self._root.update({self._key(f"{name}.{key}"): each for key, each in value.items()})
        else:
            self._root.update({self._key(name): value})

    def __dir__(self) -> list[str]:
        own = [name for name in type(self).__annotations__ if not name.startswith("_")]
        return sorted({*own, *self._values(), *object.__dir__(self)})

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self._values().items())
        return f"{type(self).__name__}({shown})"

    def _kind(self, name: str) -> type[Section] | None:
        from . import _config

        annotation = type(self).__annotations__.get(name, "").removesuffix(" | None")
        kind = getattr(_config, annotation, None)
        return kind if isinstance(kind, type) and issubclass(kind, Section) else None


class Root(Section):
    """The parameters of a design, with changes over them."""

    def __init__(
        self,
        design: str | os.PathLike[str] = "astriflash",
        *,
        preset: str | None = None,
        set: Mapping[str, object] | None = None,
    ) -> None:
        """The parameters of `design`, a name or a TOML file, with a preset and changes over it."""
        own: dict[str, Any] = {"_design": os.fspath(design), "_set": [], "_path": "", "_root": self}
        for name, value in own.items():
            object.__setattr__(self, name, value)
        if preset is not None:
            self._set.append(("preset", preset))
        self._set.extend((key, _text(value)) for key, value in (set or {}).items())
        self._resolve(self._set)

    def update(self, changes: Mapping[str, object]) -> None:
        """Changes parameters together, by keys such as `"dram_cache.ways"`.

        Raises:
            InputError: a key does not exist, or a value is invalid. Nothing has changed then.
        """
        self._resolve([*self._set, *((key, _text(value)) for key, value in changes.items())])

    def _resolve(self, changes: list[tuple[str, str]]) -> None:
        resolved, toml = _native.resolve(self._design, changes)
        for name, value in (("_set", changes), ("_resolved", json.loads(resolved)), ("_toml", toml)):
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """All parameters, as nested dictionaries."""
        copy: dict[str, Any] = json.loads(json.dumps(self._resolved))
        return copy

    def to_toml(self) -> str:
        """All parameters as TOML, which every subcommand takes as a design."""
        return str(self._toml)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the parameters to a TOML file. Returns its path."""
        path = Path(path)
        if path.suffix != ".toml":
            raise InputError(f"{path}: expected a name that ends in .toml")
        path.write_text(self.to_toml(), encoding="utf-8")
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Root) and self._resolved == other._resolved

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, (type(self), self._design, self._set))

    def __repr__(self) -> str:
        return self.to_toml()


def _rebuilt(kind: type[Root], design: str, changes: list[tuple[str, str]]) -> Root:
    root = kind(design)
    root._resolve(list(changes))
    return root
