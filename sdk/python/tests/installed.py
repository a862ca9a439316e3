"""Run by ``cargo xtask test`` where the package is installed from its wheel, and nothing else is."""

import importlib.metadata
import sys

import backstop
import backstop.adapters
from backstop.client import AsyncClient, Client
from backstop.core.executor import ToolExecutor
from backstop.hooks import create_hooks
from backstop.points import POINTS

assert "site-packages" in backstop.__file__, backstop.__file__
assert importlib.metadata.version("backstop") == backstop.__version__
files = {str(file) for file in importlib.metadata.files("backstop") or []}
for name in ["backstop/py.typed", "backstop/decorators.pyi"]:
    assert name in files, f"{name} is not in the package"
for name in ["LICENSE-APACHE", "LICENSE-MIT"]:
    assert any(file.endswith(f".dist-info/licenses/{name}") for file in files), f"{name} is not in the package"
assert repr(Client("https://example.com", "bst_0_0")) == "Client('https://example.com')" and AsyncClient
assert POINTS and ToolExecutor({}, hooks=create_hooks([{"type": "passthrough"}]))
print(f"backstop {backstop.__version__} is installed on Python {sys.version.split()[0]}, with types and licences")
