"""The part of the engine that the screen and the reports stand on loads no torch."""

import subprocess
import sys
from pathlib import Path

import engine

ROOT = Path(engine.__file__).parent
COMMAND_LINE = ROOT / "cli.py"


def torch_free_modules() -> list[str]:
    paths = [*ROOT.glob("*.py"), *ROOT.glob("report/*.py"), *ROOT.glob("demo/*.py")]
    names = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in paths if path != COMMAND_LINE]
    return sorted(name.removesuffix(".__init__") for name in names)


def test_the_list_is_not_empty():
    assert {"engine.chart", "engine.record", "engine.report", "engine.report.grid", "engine.demo"} <= {
        *torch_free_modules()
    }


def test_importing_all_of_it_loads_neither_torch_nor_a_screen():
    heavy = "{'torch', 'transformers', 'datasets', 'numpy', 'textual', 'tui'} & set(sys.modules)"
    code = f"import sys, {', '.join(torch_free_modules())}; print(sorted({heavy}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
