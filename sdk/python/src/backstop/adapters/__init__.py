"""Adapters: agents of other packages, whose tool calls Backstop judges.

Each module here imports the package that it is for, and is imported by its name alone: this package needs none of them.
"""
