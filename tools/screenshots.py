"""Write the pictures of ``docs/report.md``: a training step of an encoder in headless Chromium."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402

import pirkit  # noqa: E402
from tests.report import encoder  # noqa: E402
from tests.report.browser import Browser  # noqa: E402

LAYERS = 14
CHOSEN = "document.querySelector('#details h2')"


def main() -> None:
    folder = ROOT / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp()) / "report.html"
    program = pirkit.trace(encoder.loss, *encoder.arguments(LAYERS))
    program.source = "encoder.py"
    program.show(str(path), pipeline="@simplify,split,@default")
    print(f"{path}: {path.stat().st_size:,} bytes")
    with Browser() as browser:
        browser.ask("POST", "/window/rect", {"width": 1150, "height": 700})
        browser.go(path)
        browser.click("button[data-tab=Graph]")
        browser.type("#find-node", "rsqrt")
        browser.click("#details a")
        browser.wait(f"{CHOSEN}.innerText === 'pd_op.rsqrt'")
        browser.click("#details p:last-of-type a")
        browser.picture(folder / "graph.png")
        browser.click("button[data-tab=Code]")
        browser.run("report.views.Code.chooseLine(arguments[0])", line_of("ops.rsqrt(variance"))
        browser.wait("document.querySelectorAll('.hot').length > 2")
        browser.picture(folder / "code.png")
        browser.click("button[data-tab=Changes]")
        browser.run("[...document.querySelectorAll('a[data-step]')].pop().click()")  # what fuse did
        browser.picture(folder / "changes.png")
        for tab in ("Overview", "Memory", "Saved"):
            browser.click(f"button[data-tab={tab}]")
            browser.picture(folder / f"{tab.lower()}.png")
        assert not browser.errors(), browser.errors()
        browser.go(profiled(program))
        browser.click("button[data-tab=Cost]")
        browser.run("document.querySelector('#roofline').scrollIntoView({block: 'center'})")
        browser.picture(folder / "roofline.png")
        assert not browser.errors(), browser.errors()
    for picture in sorted(folder.glob("*.png")):  # a third of the size, and nobody sees it
        Image.open(picture).convert("RGB").quantize(64).save(picture, optimize=True)
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size:,} bytes")


def profiled(program: pirkit.Program) -> Path:
    """A page of a run of the program, with measured times."""
    folder = Path(tempfile.mkdtemp())
    file, path = folder / "encoder.mlir", folder / "profiled.html"
    pirkit.save(program, str(file))
    command = "import sys; from pirkit.cli.run import main; sys.exit(main())"
    options = [file.name, "--inputs", "random:0", "--repeat", "20", "--report", str(path)]
    subprocess.run([sys.executable, "-c", command, *options], check=True, cwd=folder)
    return path


def line_of(text: str) -> int:
    lines = Path(encoder.__file__).read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if text in line)


if __name__ == "__main__":
    main()
