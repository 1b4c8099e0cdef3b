"""``opendml completion``: scripts for shells, made from the table of commands."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from opendml.command_line.commands import COMMANDS, SHELLS
from opendml.command_line.output import fail, print_line, readable_errors
from opendml.command_line.parsing import Command, Option
from opendml.description.names import did_you_mean
from opendml.description.quoting import quoted

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """Print the script of a shell."""
    if values.shell not in SHELLS:
        fail(f"unknown shell {quoted(values.shell)}{did_you_mean(values.shell, SHELLS)} (known: {', '.join(SHELLS)})")
    with readable_errors(None):
        print_line(_SCRIPTS[values.shell]())
    return 0


def _words(option: Option) -> str:
    """The words that may stand for a value."""
    if option.completes == "operators":
        from opendml.operators.catalogue import catalogue

        return " ".join(catalogue)
    if option.completes == "feature levels":
        from opendml.description.enums import FeatureLevel

        return " ".join(map(str, FeatureLevel))
    return "" if isinstance(option.completes, str) else " ".join(option.completes)


def _named(command: Command) -> Iterator[Option]:
    return (option for option in command.options if not option.is_positional)


def _by_place(command: Command) -> Option | None:
    return next((option for option in command.options if option.is_positional), None)


def _bash() -> str:
    cases = []
    for command in COMMANDS.values():
        values = [f"      {'|'.join(o.names)}) {_bash_values(o)} ;;" for o in _named(command) if o.metavar]
        names = " ".join(name for option in _named(command) for name in option.names if name.startswith("--"))
        positional = _by_place(command)
        cases.append(
            "\n".join(
                [
                    f"  {command.name})",
                    '    case "$previous" in',
                    *values,
                    '      *) case "$current" in',
                    f'        -*) COMPREPLY=($(compgen -W "{names} --help" -- "$current")) ;;',
                    f"        *) {_bash_values(positional) if positional else ':'} ;;",
                    "      esac ;;",
                    "    esac ;;",
                ]
            )
        )
    return f"""# bash completion of opendml
_opendml() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(COMMANDS)} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{chr(10).join(cases)}
  esac
}}
complete -o bashdefault -o default -F _opendml opendml"""


def _bash_values(option: Option) -> str:
    if option.completes == "files":
        return 'COMPREPLY=($(compgen -f -- "$current"))'
    if option.completes == "folders":
        return 'COMPREPLY=($(compgen -d -- "$current"))'
    if words := _words(option):
        typed = "${current^^}" if option.completes == "operators" else "$current"
        return f'COMPREPLY=($(compgen -W "{words}" -- "{typed}"))'
    return ":"


def _zsh() -> str:
    commands = "\n".join(f"    {_zsh_quoted(f'{c.name}:{c.summary}')}" for c in COMMANDS.values())
    cases = []
    for command in COMMANDS.values():
        specifications = [_zsh_option(option) for option in _named(command)]
        positional = _by_place(command)
        if positional:
            specifications.append(_zsh_quoted(f"1:{positional.metavar}:{_zsh_action(positional)}"))
        lines = " \\\n        ".join([*specifications, "'(-h --help)'{-h,--help}'[show help]'"])
        cases.append(f"    {command.name})\n      _arguments \\\n        {lines} ;;")
    return f"""#compdef opendml
_opendml() {{
  local -a commands
  commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{chr(10).join(cases)}
  esac
}}
compdef _opendml opendml"""


def _zsh_option(option: Option) -> str:
    names = " ".join(option.names)
    braces = "{" + ",".join(option.names) + "}" if len(option.names) > 1 else option.names[0]
    about = _zsh_text(option.means_nothing or option.help)
    value = f":{_zsh_text(option.metavar)}:{_zsh_action(option)}" if option.metavar else ""
    exclusive = f"'({names})'" if len(option.names) > 1 else ""
    return f"{exclusive}{braces}{_zsh_quoted(f'[{about}]{value}')}"


def _zsh_action(option: Option) -> str:
    if option.completes == "files":
        return "_files"
    if option.completes == "folders":
        return "_files -/"
    words = _words(option)
    return f"({words})" if words else " "


def _zsh_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish() -> str:
    lines = ["# fish completion of opendml", "complete -c opendml -f"]
    lines += [
        f"{lines[1]} -n __fish_use_subcommand -a {c.name} -d {_fish_quoted(c.summary)}" for c in COMMANDS.values()
    ]
    for command in COMMANDS.values():
        where = f"complete -c opendml -n '__fish_seen_subcommand_from {command.name}'"
        positional = _by_place(command)
        if positional:
            lines.append(f"{where} {_fish_values(positional)}")
        for option in _named(command):
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = f" -r {_fish_values(option)}" if option.metavar else ""
            lines.append(f"{where} {names}{value} -d {_fish_quoted(option.means_nothing or option.help)}")
    return "\n".join(lines)


def _fish_values(option: Option) -> str:
    if option.completes == "files":
        return "-F"
    if option.completes == "folders":
        return "-a '(__fish_complete_directories)'"
    words = _words(option)
    return f"-a {_fish_quoted(words)}" if words else ""


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
