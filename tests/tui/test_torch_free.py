import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "datasets", "engine.nn", "numpy")
LATE = ("pydantic", "psutil", "jinja2", "tomli_w")


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nsys.stdout.write(' '.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_the_app_loads_no_torch_and_nothing_that_the_first_paint_can_wait_for() -> None:
    assert not loaded_by("import tui.app") & {*HEAVY, *LATE}


@pytest.mark.parametrize(
    "screen",
    [
        "load",
        "diagnose",
        "target",
        "operate",
        "record",
        "windows",
        "planform",
        "plans",
        "planbegin",
        "trial",
        "comparison",
    ],
)
def test_no_screen_loads_torch(screen: str) -> None:
    assert not loaded_by(f"import tui.screens.{screen}, tui.estimate, engine.preflight, psutil") & set(HEAVY)
