"""`privsample completion`: print a script that completes the words of a command line with the tab key."""

import argparse
import shlex
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privsample.cli.choice import mechanisms
from privsample.cli.errors import UsageProblem
from privsample.cli.models import models
from privsample.cli.options import Parser
from privsample.cli.reproduce import checkout_module

ABOUT = "print a script that completes commands, options and names in the shell"
DESCRIPTION = """\
Print a script for bash, zsh or fish that completes commands, options, the names of mechanisms, models, examples and
experiments, and file names. The script contains the options of the installed version and of installed extensions;
print it again after an update."""
EXAMPLE = """\
example:
  privsample completion bash

In all later sessions:
  bash: privsample completion bash \\
          > ~/.local/share/bash-completion/completions/privsample
  zsh:  privsample completion zsh > ~/.zfunc/_privsample
  fish: privsample completion fish > ~/.config/fish/completions/privsample.fish
For zsh, the folder ~/.zfunc must be in fpath before compinit runs."""

_FILES = ("FILE", "PATH", "DIR")  # metavars of options and arguments that name files or folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """An option or an argument: its values, whether they are names of files, and whether it takes a value at all."""

    name: str
    help: str
    values: tuple[str, ...]
    is_file: bool
    takes_value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A command or an action of a command: options, positional arguments, and the options of each mechanism."""

    path: tuple[str, ...]
    help: str
    options: tuple[Word, ...]
    arguments: tuple[Word, ...]
    commands: tuple[str, ...]
    by_mechanism: Mapping[str, tuple[Word, ...]]


def add(parser: Any) -> None:
    """Add the argument of the command."""
    parser.add_argument("shell", choices=tuple(_SCRIPTS), metavar="SHELL", help="bash, zsh or fish")


def run(args: Namespace) -> int:
    """Print the script of the shell."""
    print(_SCRIPTS[args.shell](list(nodes())), end="")
    return 0


def nodes() -> Iterator[Node]:
    """Yield every command of the parser, with the options that it has for each mechanism."""
    from privsample.cli import _parser

    yield from _nodes(_parser(), (), "")


def _nodes(parser: argparse.ArgumentParser, path: tuple[str, ...], help_text: str) -> Iterator[Node]:
    children = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    names = [name for child in children for name in child.choices]
    words = _words(parser, path)
    yield Node(
        path=path,
        help=help_text,
        options=tuple(word for word in words if word.name.startswith("-")),
        arguments=tuple(word for word in words if not word.name.startswith("-")),
        commands=tuple(names),
        by_mechanism=_options_of_mechanisms(parser, path),
    )
    for child in children:
        texts = {choice.dest: choice.help or "" for choice in child._choices_actions}
        for name, inner in child.choices.items():
            yield from _nodes(inner, (*path, name), texts.get(name, ""))


def _options_of_mechanisms(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> dict[str, tuple[Word, ...]]:
    """Return the options that each value of --mechanism adds; the empty name stands for no --mechanism."""
    if not isinstance(parser, Parser) or parser.further is None:
        return {}
    known = {word.name for word in _words(parser, path)}
    found = {}
    for name in ("", *mechanisms()):
        copy = Parser(add_help=False)
        try:
            parser.further(copy, ["--mechanism", name] if name else [])
        except UsageProblem:  # the command needs --mechanism, or does not accept this one
            continue
        found[name] = tuple(word for word in _words(copy, path) if word.name not in known)
    return found


def _words(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> list[Word]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        values, is_file = _values(action, path)
        text = " ".join((action.help or "").replace("%%", "%").split())
        found += [
            Word(name=name, help=text, values=values, is_file=is_file, takes_value=action.nargs != 0)
            for name in action.option_strings or [action.dest]
            if name.startswith("--") or not action.option_strings
        ]
    return found


def _values(action: argparse.Action, path: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Return the names that the option or argument accepts, and whether it names a file."""
    if action.choices is not None:
        return tuple(map(str, action.choices)), False
    if action.metavar in _FILES:
        return (), True
    if action.dest == "mechanism":
        return tuple(mechanisms()), False
    if action.dest == "model":
        return tuple(models()), False
    if action.dest == "names" and not action.option_strings:
        return _positional_names(path[-1]), False
    return (), False


def _positional_names(command: str) -> tuple[str, ...]:
    """Return the names that the command accepts without an option."""
    if command == "audit":
        from privsample.simulations.audit.catalogue import catalogue

        return tuple(catalogue())
    if command == "reproduce":
        return tuple(experiments.positional_names()) if (experiments := checkout_module("command")) else ()
    return tuple(mechanisms())


def _cases(branches: Sequence[tuple[str, str]]) -> list[str]:
    """Return the branches of a `case` statement; patterns with the same code share a branch."""
    grouped: dict[str, list[str]] = {}
    for pattern, code in dict(branches).items():
        grouped.setdefault(code, []).append(shlex.quote(pattern))
    return [f"    {'|'.join(patterns)}) {code} ;;" for code, patterns in grouped.items()]


def _has_values(word: Word) -> bool:
    return bool(word.values) or word.is_file


def _offer(word: Word) -> str:
    """Return the shell code that offers the values of an option or argument."""
    return "_privsample_files" if word.is_file else _offer_words(word.values)


def _offer_words(words: Sequence[str]) -> str:
    return " ".join(["_privsample_words", *map(shlex.quote, words)])


def _body(found: Sequence[Node]) -> str:
    """Return the code that bash and zsh share: `given` holds the words before the current one, without the program."""
    values, options, arguments = [], [], []
    for node in found:
        place = "".join(f"/{name}" for name in node.path)
        valued = [word for words in (node.options, *node.by_mechanism.values()) for word in words if word.takes_value]
        # Where an option accepts names with one mechanism and not with another, the names are offered: they come last.
        values += [(f"{place} {word.name}", f"{_offer(word)}; return") for word in sorted(valued, key=_has_values)]
        options.append((place, _offer_words([word.name for word in node.options])))
        for name, words in node.by_mechanism.items():
            options.append((f"{place} {name}.", _offer_words([word.name for word in words])))
        if node.commands:
            arguments.append((place, _offer_words(node.commands)))
        elif node.arguments:
            arguments.append((place, _offer(node.arguments[0])))
    places = "|".join("".join(f"/{name}" for name in node.path) for node in found if node.path)
    lines = [
        '  local word previous="" place="" mechanism=""',
        '  for word in "${given[@]}"; do',
        "    if [[ $previous == --mechanism ]]; then mechanism=$word; fi",
        "    case $word in --mechanism=*) mechanism=${word#*=} ;; esac",
        f'    case "$place/$word" in {places}) place="$place/$word" ;; esac',
        '    if [[ $word != "=" ]]; then previous=$word; fi',  # bash splits --option=value at the sign
        "  done",
        '  case "$place $previous" in',
        *_cases(values),
        "  esac",
        "  if [[ $current == -* ]]; then",
        '    for word in "$place" "$place $mechanism."; do case "$word" in',
        *_cases(options),
        "    esac; done",
        "    return",
        "  fi",
        '  case "$place" in',
        *_cases(arguments),
        "  esac",
    ]
    return "\n".join(lines)


def _bash(found: Sequence[Node]) -> str:
    return f"""\
# Completion of privsample for bash, printed by `privsample completion bash`.
_privsample_words() {{
  local name
  for name in "$@"; do if [[ $name == "$current"* ]]; then COMPREPLY+=("$name"); fi; done
}}
_privsample_files() {{
  local name
  compopt -o filenames
  while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -f -- "$current")
}}
_privsample() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" given=("${{COMP_WORDS[@]:1:COMP_CWORD-1}}")
  if [[ $current == "=" ]]; then current=""; fi
  COMPREPLY=()
{_body(found)}
}}
complete -F _privsample privsample
"""


def _zsh(found: Sequence[Node]) -> str:
    return f"""\
#compdef privsample
# Completion of privsample for zsh, printed by `privsample completion zsh`.
_privsample_words() {{ compadd -- "$@"; }}
_privsample_files() {{ _files; }}
_privsample() {{
  local current="${{words[CURRENT]}}"
  local -a given=("${{(@)words[2,CURRENT-1]}}")
{_body(found)}
}}
if [[ $funcstack[1] == _privsample ]]; then _privsample "$@"; else compdef _privsample privsample; fi
"""


_FISH_START = """\
# Completion of privsample for fish, printed by `privsample completion fish`.
function __privsample_mechanism -d "Whether the mechanism on the command line is one of these; none: there is none"
    set -l given none
    set -l previous ""
    for word in (commandline -opc)
        if test "$previous" = --mechanism
            set given $word
        end
        if string match -q -- "--mechanism=*" $word
            set given (string replace -- "--mechanism=" "" $word)
        end
        set previous $word
    end
    contains -- $given $argv
end
complete -c privsample -f"""


def _fish(found: Sequence[Node]) -> str:
    lines, help_texts = [_FISH_START], {node.path: node.help for node in found}
    for node in found:
        seen = [f"__fish_seen_subcommand_from {name}" for name in node.path]
        if node.commands:
            before = "; and ".join([*seen, f"not __fish_seen_subcommand_from {' '.join(node.commands)}"])
            for name in node.commands:
                text = shlex.quote(help_texts[*node.path, name])
                lines.append(f"complete -c privsample -n {shlex.quote(before)} -a {name} -d {text}")
        here = "; and ".join(seen) or "__fish_use_subcommand"
        lines += [_fish_line(word, here) for word in (*node.options, *node.arguments)]
        owners: dict[Word, list[str]] = {}  # an option of several mechanisms stands once
        for name, words in node.by_mechanism.items():
            for word in words:
                owners.setdefault(word, []).append(name or "none")
        for word, names in owners.items():
            lines.append(_fish_line(word, f"{here}; and __privsample_mechanism {' '.join(names)}"))
    return "\n".join(lines) + "\n"


def _fish_line(word: Word, condition: str) -> str:
    parts = ["complete -c privsample", f"-n {shlex.quote(condition)}"]
    if word.name.startswith("--"):
        parts.append(f"-l {word.name[2:]}")
        if word.takes_value:
            parts.append("-r")
    if word.is_file:
        parts.append("-F")
    if word.values:
        parts.append(f"-a {shlex.quote(' '.join(word.values))}")
    if word.name.startswith("--"):
        parts.append(f"-d {shlex.quote(word.help)}")
    return " ".join(parts)


_SCRIPTS: dict[str, Callable[[Sequence[Node]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
