"""The report as its readers open it: the page by a browser, the pictures by a renderer of SVG."""

import shutil
import struct
import subprocess
import zlib
from html import unescape
from pathlib import Path

import pytest

import engine
from engine.report import write_report
from engine.report.words import lines_of
from engine.session import open_session
from tests.engine.test_report import CHECKED, STOCK, report_of
from tests.engine.test_report_markup import FOUL_TEXT, NASTY, Tags, foul

SESSIONS = Path(engine.__file__).parents[1] / "sessions"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RSVG = shutil.which("rsvg-convert")


def picture(data: bytes) -> tuple[int, int, set[bytes]]:
    """Width, height and colours of a PNG of eight bits a channel, read by hand."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed, width, height, channels = 8, b"", 0, 0, 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and not interlaced
            channels = {2: 3, 6: 4}[colour]
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    raw, stride, before = zlib.decompress(packed), width * channels, bytes(width * channels)
    colours = set()
    for y in range(height):
        method, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for x in range(stride):
            left = line[x - channels] if x >= channels else 0
            corner = before[x - channels] if x >= channels else 0
            guess = (0, left, before[x], (left + before[x]) // 2, _paeth(left, before[x], corner))[method]
            line[x] = (line[x] + guess) & 255
        colours |= {bytes(line[x : x + channels]) for x in range(0, stride, channels)}
        before = bytes(line)
    return width, height, colours


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda c: abs(guess - c))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_shows_the_page_and_fetches_nothing(tmp_path):
    report_of(tmp_path, foul(NASTY, FOUL_TEXT))
    base = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shot = tmp_path / "page.png"
    page = (tmp_path / "out" / "report" / "report.html").as_uri()
    seen = subprocess.run(
        [*base, "--window-size=500,1000", f"--screenshot={shot}", "--dump-dom", page],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    dom = Tags(seen.stdout)
    assert dom.text.count(lines_of(FOUL_TEXT)) == 4  # each prompt at each stage, as text
    assert not dom.tags & {"script", "img", "iframe", "link", "object"}
    assert not dom.attributes & {"src", "href", "onload", "onerror"}
    assert NASTY in unescape(seen.stdout)
    width, height, colours = picture(shot.read_bytes())
    assert width == 500 and height > 500 and len(colours) > 8


@pytest.mark.skipif(RSVG is None, reason="rsvg-convert is not installed")
def test_the_pictures_of_a_committed_session_can_be_drawn(tmp_path):
    session = open_session(next(SESSIONS.glob("*-demo-7d17")))
    drawn = [path for path in write_report(session, tmp_path) if path.suffix == ".svg"]
    assert [path.name for path in drawn] == STOCK + CHECKED
    for path in drawn:
        png = subprocess.run([RSVG, "--width=200", str(path)], capture_output=True, timeout=60, check=True).stdout
        width, _, colours = picture(png)
        assert width == 200 and len(colours) > 8, path.name
