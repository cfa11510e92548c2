"""Options of a release for every group of a public list of keys, and the grouped mechanism that they give."""

from argparse import Namespace
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privsample.accounting.base import Accountant
from privsample.accounting.groups.grouped import GroupedAccountant
from privsample.cli import build
from privsample.cli.choice import dest
from privsample.cli.errors import UsageProblem
from privsample.cli.options import numbers, whole_number
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.groups.contribution import Contribution
from privsample.mechanisms.groups.grouped import GroupedMechanism

BOUNDS = ("groups_per_unit", "records_per_unit", "clip_unit")
_LONGEST_NUMBER = 20  # digits of a key that is a whole number of 64 bits
_NEEDS_BY = ("keys", "sizes", "text_keys", "unlisted", *BOUNDS, "unit_column")


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The public facts about the groups: the column of their keys, the keys, their sizes, and bounds for units."""

    name: str
    keys: tuple[Any, ...]
    sizes: tuple[int, ...] | None
    contribution: Contribution | None
    unlisted: Any

    def around(self, base: Mechanism) -> GroupedMechanism:
        """Return the mechanism for all groups. Raises: UsageProblem."""
        with build.usage_errors():
            return GroupedMechanism(
                name=self.name,
                base=base,
                keys=self.keys,
                sizes=self.sizes,
                contribution=self.contribution,
                unlisted=self.unlisted,
            )

    def account(self, base: Mechanism) -> Accountant:
        """Return the account of the release for all groups, whose mechanism is not built at each step of a search."""
        bounds = self.contribution
        if self.sizes is not None:
            each = Counter(self.sizes).items()
            return GroupedAccountant(accounts=tuple((base.for_size(n).accountant, count) for n, count in each))
        if bounds is None:
            return base.accountant
        return GroupedAccountant(
            accounts=((base.accountant, len(self.keys)),),
            groups_per_unit=bounds.groups,
            records_per_group=bounds.records_per_group,
            unit=bounds.unit,
        )


def add_groups(parser: Any) -> None:
    """Add the options of groups."""
    group = parser.add_argument_group(
        "groups", "One release for each group, at the cost of one group if a unit has one record."
    )
    group.add_argument("--by", metavar="C", help="column of the group's key: text or whole numbers")
    group.add_argument(
        "--keys",
        metavar="FILE|A,B,C",
        help="the public keys of all groups: a file with one key in each line, or a list; they must not be taken from "
        "the data",
    )
    group.add_argument("--text-keys", action="store_true", help="keys that look like whole numbers are text")
    group.add_argument(
        "--sizes",
        metavar="FILE",
        help="file with KEY,N in each line: the public numbers of records, where they are public",
    )
    group.add_argument(
        "--unlisted",
        choices=("refuse", "drop"),
        help="records with another key: refuse the data (default), or leave such records out",
    )
    group.add_argument(
        "--groups-per-unit",
        type=whole_number,
        metavar="K",
        help="a unit counts in at most K groups; 1 if another bound is given. Without bounds each row is a unit",
    )
    group.add_argument(
        "--records-per-unit",
        type=whole_number,
        metavar="R",
        help="of a unit, at most R records count in each group; 1 if only --groups-per-unit is given",
    )
    group.add_argument(
        "--clip-unit",
        type=numbers,
        metavar="LO,HI",
        help="instead of --records-per-unit: the sum of a unit's records in a group, clipped, counts as one record",
    )
    group.add_argument(
        "--unit-column", metavar="C", help="column of the unit, if units are bounded (default: the word of --unit)"
    )


def read_groups(args: Namespace) -> Groups | None:
    """Return what the options say about groups, or None without --by. Raises: UsageProblem."""
    if args.by is None:
        given = [name for name in _NEEDS_BY if getattr(args, name)]
        if given:
            raise UsageProblem(f"--{given[0].replace('_', '-')} needs --by, the column of the group's key")
        return None
    if args.kind is GroupedMechanism:
        raise UsageProblem("with --by, --mechanism names the mechanism of one group; leave --mechanism grouped out")
    listed = None if args.sizes is None else _sizes(Path(args.sizes))
    if args.keys is None and listed is None:
        raise UsageProblem("--by needs --keys, the public keys of all groups: a file, or a list such as a,b,c")
    keys = list(listed or ()) if args.keys is None else _keys(args.keys)
    if listed is not None and set(keys) != set(listed):
        raise UsageProblem("--keys and --sizes must hold the same keys; leave --keys out")
    sizes = None if listed is None else tuple(listed[key] for key in keys)
    if sizes is not None and getattr(args, dest("n"), None) is None:
        setattr(args, dest("n"), sizes[0])  # of the base; --sizes replaces it in each group
    as_numbers = not args.text_keys and all(_is_whole(key) for key in keys)
    return Groups(
        name=args.by,
        keys=tuple(map(int, keys)) if as_numbers else tuple(keys),
        sizes=sizes,
        contribution=_contribution(args),
        unlisted=args.unlisted or "refuse",
    )


def _contribution(args: Namespace) -> Contribution | None:
    if not any(getattr(args, name) for name in BOUNDS):
        if args.unit_column is not None:
            raise UsageProblem(
                "--unit-column needs bounds for units: --groups-per-unit, with --records-per-unit or --clip-unit"
            )
        return None
    unit = getattr(args, dest("unit"), None)
    if unit is None and args.unit_column is None:
        raise UsageProblem("bounds for units need the column of the unit: give --unit, or --unit-column")
    if args.unit_column is None:
        args.unit_column = unit
    with build.usage_errors():
        return Contribution(
            groups=args.groups_per_unit or 1,
            records=args.records_per_unit,
            clip=args.clip_unit,
            unit=unit or "unit",
        )


def _keys(text: str) -> list[str]:
    """Return the keys of a list, or those in a file. Raises: UsageProblem."""
    is_list = "," in text and not Path(text).is_file()
    found = [key.strip() for key in text.split(",")] if is_list else _lines(Path(text), "--keys")
    if "" in found:
        raise UsageProblem(f"--keys expects keys such as a,b,c, got {text!r}")
    return found


def _sizes(path: Path) -> dict[str, int]:
    """Return the numbers of records by key. Raises: UsageProblem."""
    found = dict[str, int]()
    for place, line in enumerate(_lines(path, "--sizes"), 1):
        key, _, size = (part.strip() for part in line.rpartition(","))
        if not key or not _is_whole(size) or int(size) < 1:
            raise UsageProblem(
                f"--sizes: entry {place} of {path.name} must be KEY,N with N at least 1, such as north,120"
            )
        if key in found:
            raise UsageProblem(f"--sizes: entry {place} of {path.name} repeats a key")
        found[key] = int(size)
    return found


def _lines(path: Path, option: str) -> list[str]:
    """Return the lines of a public file that are not empty. Raises: UsageProblem."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        more = "; a list has a comma, such as a,b" if option == "--keys" else ""
        raise UsageProblem(f"{option}: there is no file {path}{more}") from None
    except UnicodeDecodeError:
        raise UsageProblem(f"{option}: {path} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "invalid file name"
        raise UsageProblem(f"{option}: {path} cannot be read: {reason}") from None
    if not (found := [line.strip() for line in text.splitlines() if line.strip()]):
        raise UsageProblem(f"{option}: {path} holds no line; expected one key in each")
    return found


def _is_whole(text: str) -> bool:
    """Return True for a whole number as Python writes it: 7 and -7, but neither 007 nor +7."""
    digits = text.removeprefix("-")
    is_short = len(digits) <= _LONGEST_NUMBER
    return is_short and digits.isascii() and digits.isdigit() and str(int(digits)) == digits and text != "-0"
