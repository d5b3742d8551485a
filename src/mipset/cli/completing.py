"""`completion`: a script for a shell, which completes verbs, flags and the names that flags take."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import fields

from mipset.cli.parser import Parser, Verbs, add_verb

SHELLS = ("bash", "zsh", "fish")
BASH = """\
_mipset() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" verb="" each names=""
    COMPREPLY=()
    for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$each" in -*) ;; *) verb="$each"; break ;; esac
    done
    case "$verb $before" in
@VALUES@
        *) case "$verb $word" in
@WORDS@
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$names" -- "$word"))
}
complete -o bashdefault -o default -F _mipset mipset
"""


def add(verbs: Verbs, top: Callable[[], Parser]) -> None:
    """Add the verb of this module. `top` gives the parser with all verbs."""
    verb = add_verb(verbs, "completion", run_completion, "print a script that completes commands in your shell")
    verb.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    verb.set_defaults(top=top)


def run_completion(arguments: argparse.Namespace) -> None:
    """Print a script that lets your shell complete verbs, flags and names: press Tab.

    bash: add `eval "$(mipset completion bash)"` to ~/.bashrc. zsh: add `eval "$(mipset completion zsh)"` to ~/.zshrc,
    after compinit. fish: run `mipset completion fish > ~/.config/fish/completions/mipset.fish`.
    """
    verbs = arguments.top().verbs()
    if arguments.shell == "fish":
        print("\n".join(_fish(verbs)))
    else:
        print("autoload -Uz bashcompinit && bashcompinit\n" * (arguments.shell == "zsh") + _bash(verbs), end="")


def _flags(verb: Parser) -> Iterator[tuple[str, argparse.Action]]:
    for action in verb._actions:
        for flag in action.option_strings:
            if flag.startswith("--"):
                yield flag, action


def _names(action: argparse.Action) -> list[str]:
    """The names that an argument can be, as far as they are known."""
    from mipset.data.registry import NAMES
    from mipset.settings.architecture import NETWORKS
    from mipset.settings.catalogue import RECIPES
    from mipset.settings.methods import GROUPS, METHODS
    from mipset.settings.recipe import Recipe

    datasets = [name.replace("PATH", "") for name in NAMES]
    known = {
        **{f.name: list(f.metadata["choices"]) for f in fields(Recipe)},
        "network": list(NETWORKS),
        "recipe": [*RECIPES],
        "methods": [*METHODS, *GROUPS],
        "dataset": datasets,
        "data": datasets,
    }
    return [str(name) for name in action.choices] if action.choices is not None else known.get(action.dest, [])


def _positional_names(name: str, verb: Parser) -> list[str]:
    """The names that the arguments of a verb without a flag can be; files are completed by the shell."""
    from mipset.settings.catalogue import RECIPES

    known = {"recipes": [*RECIPES]}.get(name, [])
    for action in verb._actions:
        if not action.option_strings:
            known += _names(action)
    return known


def _bash(verbs: dict[str, Parser]) -> str:
    """The script of bash. Where it offers no name, bash offers files."""
    values, words = [], [_case('" "*', [*verbs, "--help", "--version"])]
    for name, verb in verbs.items():
        flags = list(_flags(verb))
        values += [_case(f"{name!r}' {flag}'", _names(action)) for flag, action in flags if action.nargs != 0]
        words.append(_case(f"{name!r}' -'*", [flag for flag, _ in flags]))
        words.append(_case(f"{name!r}' '*", _positional_names(name, verb)))
    return BASH.replace("@VALUES@", "\n".join(values)).replace("@WORDS@", "\n".join(words))


def _case(pattern: str, names: list[str]) -> str:
    return f"        {pattern}) names={shlex.quote(' '.join(names))} ;;"


def _fish(verbs: dict[str, Parser]) -> Iterator[str]:
    listed = shlex.quote(" ".join(verbs))
    yield f"complete -c mipset -n '__fish_use_subcommand' -f -a {listed}"
    for name, verb in verbs.items():
        condition = f"-n '__fish_seen_subcommand_from {name}'"
        if known := _positional_names(name, verb):
            yield f"complete -c mipset {condition} -a {shlex.quote(' '.join(known))}"
        for flag, action in _flags(verb):
            known = _names(action)
            value = f" -x -a {shlex.quote(' '.join(known))}" if known else "" if action.nargs == 0 else " -r"
            yield f"complete -c mipset {condition} -l {flag[2:]}{value}"
