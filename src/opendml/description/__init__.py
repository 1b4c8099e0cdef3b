"""Descriptors and graphs as values: enums, tensors, fields, operators' structs, rules, graph descriptions."""
