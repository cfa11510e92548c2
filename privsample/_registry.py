"""The classes that tags in files denote: privsample's own public classes, and those that other packages register.

Loading never imports what a file names. A tag is looked up among privsample's public names, then among the registered
classes, then in the modules that *installed* packages declare as entry points under the tag's package name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

from privsample._renamed import RENAMED, UPGRADES
from privsample.errors import NotRegistered

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "privsample.extensions"
OWN = "privsample"

_SIGNS = str.maketrans("", "", ".-_")

C = TypeVar("C", bound=type)
Step = Callable[[dict[str, Any]], dict[str, Any]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A class with its tag in files.

    `steps` maps (name in the file, version in the file) to a function that upgrades fields to the next version.
    """

    cls: Any
    package: str
    name: str
    version: int
    steps: Mapping[tuple[str, int], Step]

    @property
    def tag(self) -> list[Any]:
        """The tag that is written to files."""
        return [self.package, self.name, self.version]

    def upgraded(self, name: str, version: int, found: dict[str, Any]) -> dict[str, Any]:
        """Upgrade fields of a file to the current version. Raises NotRegistered, and errors of the upgrades."""
        if version > self.version:
            raise NotRegistered(
                f"the document was written by a newer {self.package}: it holds version {version} of {self.name}, and "
                f"this one reads versions up to {self.version}; upgrade {self.package}"
            )
        for step_from in range(version, self.version):
            step = self.steps.get((name, step_from)) or self.steps.get((self.name, step_from))
            if step is None:
                raise NotRegistered(
                    f"the document holds version {step_from} of {self.package}'s {name}, and no function is registered "
                    f"that upgrades it to version {step_from + 1}: give register(..., upgrade={{{step_from}: ...}})"
                )
            found, name = step(dict(found)), self.name
        return found


_BY_CLASS: dict[type, Registration] = {}
_BY_NAME: dict[tuple[str, str], Registration] = {}  # former names as well


@overload
def register(
    target: None = None,
    *,
    package: str,
    name: str | None = None,
    version: int = 1,
    aliases: Iterable[str] = (),
    upgrade: Mapping[int, Step] | None = None,
) -> Callable[[C], C]: ...
@overload
def register(
    target: C,
    *,
    package: str,
    name: str | None = None,
    version: int = 1,
    aliases: Iterable[str] = (),
    upgrade: Mapping[int, Step] | None = None,
) -> C: ...
def register(
    target: C | None = None,
    *,
    package: str,
    name: str | None = None,
    version: int = 1,
    aliases: Iterable[str] = (),
    upgrade: Mapping[int, Step] | None = None,
) -> C | Callable[[C], C]:
    """Give a class of another package a tag, so that its values can be saved, loaded and charged to a ledger.

    A file holds the tag `[package, name, version]` and the fields of the dataclass that `__init__` takes. Loading calls
    the class with these fields, so that its own checks run. Every value inside must be registered as well, or be a
    number, string, None, list, tuple, set, mapping or array; lists, sets and mappings are loaded as tuples, frozensets
    and dicts.

    Parameters
    ----------
    target : type, optional
        A frozen dataclass that is compared by value (a mechanism, model, accountant, relation, noise, ...) or an Enum.
        If omitted, `register` returns a class decorator, which must be above `@dataclass`.
    package : str
        The name of the package in tags: letters, digits, ".", "-" and "_". Declare it as an entry point of the group
        `privsample.extensions`, so that a file can be loaded before the package was imported; see Notes.
    name : str, optional
        The name in the tag; by default the class name.
    version : int, default 1
        The version of the fields. Raise it when fields are renamed, added without a default, or change their meaning.
    aliases : iterable of str, default ()
        Former names of the class in tags of this package, which are read but not written.
    upgrade : mapping of int to callable, optional
        For each earlier version, the function that turns its fields, a dict, into those of the next version.

    Returns
    -------
    type or callable
        The class itself, or a decorator.

    Raises
    ------
    TypeError
        If `target` is neither a dataclass nor an Enum.
    ValueError
        If the tag or an alias belongs to another class, if `package` is privsample, or if an argument is malformed.
        A class that is redefined under the same module and name replaces the former one.

    Notes
    -----
    Loading imports no module that a file names. A tag of a package that has not registered a class is looked up among
    the entry points of *installed* packages in the group `privsample.extensions`: if one is declared under this name,
    its module is imported, which must register the class. With the line `flips = "flips.mechanisms"` below
    `[project.entry-points."privsample.extensions"]` in the `pyproject.toml` of an installed package, a file with the
    tag `["flips", "Flip", 1]` makes privsample import `flips.mechanisms`. Any other package name is refused.

    Examples
    --------
    A map between the steps of a mechanism, defined in another package:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import privsample as ps
    >>> @ps.register(package="example-maps")
    ... @dataclass(frozen=True, slots=True, kw_only=True)
    ... class SoftThreshold(ps.LipschitzMap):
    ...     level: float
    ...
    ...     @property
    ...     def constant(self):
    ...         return 1.0
    ...
    ...     def __call__(self, x):
    ...         return np.sign(x) * np.maximum(np.abs(x) - self.level, 0.0)
    >>> noise = ps.GaussianMechanism(sensitivity=1, noise_std=2)
    >>> step = ps.NoisyStep(map=SoftThreshold(level=0.5), noise_std=1)
    >>> release = ps.NoisyContraction(base=noise, steps=(step,)).release(3.0)
    >>> '"type": ["example-maps", "SoftThreshold", 1], "level": 0.5' in release.to_json()
    True
    >>> ps.Release.from_json(release.to_json()) == release
    True
    """
    if target is None:
        return lambda decorated: register(
            decorated, package=package, name=name, version=version, aliases=aliases, upgrade=upgrade
        )
    if not (upgrade is None or isinstance(upgrade, Mapping)):
        raise TypeError(f"upgrade must map versions to functions, got {type(upgrade).__name__}")
    made = _checked(target, package, name, version, upgrade or {})
    names = [made.name, *_texts(aliases)]
    for one in names:
        holder = _BY_NAME.get((package, one))
        if holder is not None and not _same_definition(holder.cls, target):
            raise ValueError(
                f"the tag ({package!r}, {one!r}) belongs to {_full_name(holder.cls)} already, so {_full_name(target)} "
                "cannot have it: register it under another name="
            )
    known = _BY_CLASS.get(target)
    if known is not None and (known.package, known.name) != (package, made.name):
        raise ValueError(
            f"{_full_name(target)} is registered as ({known.package!r}, {known.name!r}) already, and cannot be "
            f"registered as ({package!r}, {made.name!r}) as well: declare a former name by aliases="
        )
    for former in {holder.cls for one in names if (holder := _BY_NAME.get((package, one)))}:
        _BY_CLASS.pop(former, None)
    _BY_CLASS[target] = made
    _BY_NAME.update({(package, one): made for one in names})
    return target


def load_extensions() -> tuple[str, ...]:
    """Import the modules of all installed packages that extend privsample, so that their classes are registered.

    These are the entry points of the group `privsample.extensions`; see `register`. Loading files does not need this
    call: it is for programs that list all classes.

    Returns
    -------
    tuple of str
        The declared names of the packages, sorted.

    Raises
    ------
    ImportError
        If a module cannot be imported; the message names the package.

    Examples
    --------
    >>> import privsample as ps
    >>> names = ps.load_extensions()
    """
    declared = _declared()
    for package in declared:
        _load(package)
    return tuple(declared)


def registered_classes() -> tuple[type, ...]:
    """All classes that other packages have registered so far, in order of registration."""
    return tuple(_BY_CLASS)


def registration_of(cls: type) -> Registration:
    """The registration of a class. Raises NotRegistered."""
    found = _BY_CLASS.get(cls)
    if found is None and cls.__module__.partition(".")[0] == OWN:
        own = _own(cls.__name__)
        found = own if own is not None and own.cls is cls else None
    if found is None:
        raise unregistered(cls)
    return found


def unregistered(cls: type) -> NotRegistered:
    """The error for a value of a class that is not registered."""
    return NotRegistered(
        f"{_full_name(cls)} is not registered, so a file with one of its values could not be loaded; nothing was "
        "written, spent or drawn. Register the class, a dataclass or an Enum: "
        f'privsample.register({cls.__name__}, package="...")'
    )


def find(package: str, name: str) -> Registration:
    """The registration that a tag denotes; may import a module of an installed package that declares `package`.

    Raises NotRegistered.
    """
    if package == OWN:
        own = _own(name)
        if own is None:
            raise NotRegistered(f"the document names {name!r}, which is not a class of this version of privsample")
        return own
    if (package, name) not in _BY_NAME and package in _declared():
        try:
            _load(package)
        except ImportError as error:
            raise NotRegistered(f"the document names {name!r} of the package {package!r}: {error}") from error
    if (package, name) not in _BY_NAME:
        state = "does not register it" if package in _declared() else "has not registered it, or is not installed"
        raise NotRegistered(
            f"the document names {name!r} of the package {package!r}, which {state}: install the package, or import "
            "the module that registers it, and load again"
        )
    return _BY_NAME[package, name]


def is_storable_class(cls: Any) -> bool:
    """True if files can hold values of this class: a dataclass or an Enum."""
    return isinstance(cls, type) and (is_dataclass(cls) or issubclass(cls, Enum))


@cache
def _own(name: str) -> Registration | None:
    """The registration of a public class of privsample, by its current or a former name."""
    import privsample

    present = RENAMED.get(name, name)
    cls = getattr(privsample, present) if present in privsample._HOME else None
    if not is_storable_class(cls):
        return None
    names = {present, *(former for former, now in RENAMED.items() if now == present)}
    steps = {key: step for key, step in UPGRADES.items() if key[0] in names}
    version = 1 + max((version for _, version in steps), default=0)
    return Registration(cls=cls, package=OWN, name=present, version=version, steps=steps)


def _checked(cls: Any, package: Any, name: Any, version: Any, upgrade: Mapping[int, Step]) -> Registration:
    """The registration of a class after all checks of the arguments. Raises TypeError or ValueError."""
    if not is_storable_class(cls):
        raise TypeError(
            f"only a dataclass or an Enum can be registered, got {cls!r}: put @register above @dataclass(frozen=True)"
        )
    if is_dataclass(cls) and any(field.name == "type" for field in fields(cls)):
        raise ValueError(f"{_full_name(cls)} has a field 'type', which files use for the tag: rename it")
    if not (isinstance(package, str) and package.translate(_SIGNS).isalnum() and package.isascii()):
        raise ValueError(f"package must be a name of letters, digits, '.', '-' and '_', got {package!r}")
    if (own := _own(cls.__name__)) is not None and own.cls is cls:
        raise ValueError(f"{_full_name(cls)} is a class of privsample and has a tag already: register your own classes")
    if package == OWN:
        raise ValueError("package must be the name of your own package: the tags of 'privsample' are its public names")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ValueError(f"version must be an integer >= 1, got {version!r}")
    if set(upgrade) - set(range(1, version)):
        raise ValueError(f"upgrade must have keys from 1 to {version - 1}, the earlier versions, got {sorted(upgrade)}")
    (checked,) = _texts((cls.__name__ if name is None else name,))
    steps = {(checked, start): step for start, step in upgrade.items()}
    return Registration(cls=cls, package=package, name=checked, version=version, steps=steps)


def _texts(names: Iterable[Any]) -> list[str]:
    """Check a list of names. Raises TypeError or ValueError."""
    if not isinstance(names, Iterable):
        raise TypeError(f"aliases must be a list of names, got {type(names).__name__}")
    listed = [names] if isinstance(names, str) else list(names)
    if not all(isinstance(name, str) and name.isidentifier() for name in listed):
        raise ValueError(f"names and aliases must be identifiers, got {listed}")
    return listed


def _same_definition(one: type, other: type) -> bool:
    """True if both classes come from one definition that ran twice, such as a notebook cell or a reloaded module."""
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _full_name(cls: Any) -> str:
    """Module and qualified name of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _declared() -> "dict[str, list[EntryPoint]]":
    """The entry points of installed packages, by declared package name; sorted."""
    from importlib.metadata import entry_points  # an expensive import

    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        found.setdefault(point.name, []).append(point)
    return found


def _load(package: str) -> None:
    """Import the modules that an installed package declares. Raises ImportError."""
    for point in _declared()[package]:
        try:
            point.load()
        except Exception as error:
            raise ImportError(
                f"the installed package {package!r} extends privsample, but its module {point.value} cannot be "
                f"imported ({type(error).__name__}: {error}): repair or uninstall it"
            ) from error
