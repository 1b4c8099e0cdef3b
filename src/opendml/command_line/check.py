"""``opendml check``: all that is wrong with a model."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from opendml.command_line.commands import CHECK
from opendml.command_line.models import feature_level, note_meaningless, onnx_choices, read_unlimited
from opendml.command_line.output import print_json, print_line, readable_errors
from opendml.description.quoting import plural

if TYPE_CHECKING:
    from opendml.description.enums import FeatureLevel
    from opendml.formats.dxdispatch import Model, ModelReport

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """List what is wrong; 1 for invalid operators, 2 for anything else."""
    note_meaningless(CHECK.options, values)
    with readable_errors(values.model, values.json):
        from opendml.formats.dxdispatch import check_model

        level = feature_level(values.feature_level)
        model = read_unlimited(
            values.model,
            values.input_path,
            in_part=True,
            onnx=onnx_choices(values),
            feature_level=level,
        )
        report = check_model(model, level)
        others = len(model.unreadable) + len(report.binding_problems)
        count = sum(map(len, report.violations.values())) + others
        if values.json:
            print_json(_as_json(model, report, level))
        else:
            _print(model, report)
        if count:
            sys.stderr.write(f"{plural(count, 'problem' if others else 'violation')} at feature level {level}\n")
        elif not values.json:
            print_line(f"valid at feature level {level}: {plural(_operator_count(model), 'operator')}")
        return 2 if others else 1 if count else 0


def _print(model: Model, report: ModelReport) -> None:
    from opendml.formats.dxdispatch.checking import violation_line

    for unread in model.unreadable:
        print_line(str(unread))
    for name, violations in report.violations.items():
        for violation in violations:
            print_line(violation_line(model.dispatchables[name], violation))
    for problem in report.binding_problems:
        print_line(str(problem))


def _as_json(model: Model, report: ModelReport, level: FeatureLevel) -> dict[str, Any]:
    return {
        "valid": not model.unreadable and not report.violations and not report.binding_problems,
        "feature_level": str(level),
        "operators": _operator_count(model),
        "unreadable": [{"path": unread.path, "message": unread.message} for unread in model.unreadable],
        "violations": [
            {
                "dispatchable": name,
                "path": model.dispatchables[name].desc_path,
                "operator": violation.operator,
                "field": violation.field,
                "rule": violation.rule,
                "got": violation.got,
                "allowed_at": None if violation.allowed_at is None else str(violation.allowed_at),
            }
            for name, violations in report.violations.items()
            for violation in violations
        ],
        "binding_problems": [{"path": problem.path, "message": problem.message} for problem in report.binding_problems],
    }


def _operator_count(model: Model) -> int:
    return sum(entry.operator_count for entry in model.dispatchables.values())
