"""report.tex: sound by plain reading of it, and, where LaTeX is installed, by LaTeX itself."""

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.printable import printable
from engine.report.latex import latex, latex_columns, latex_lines
from engine.report.words import Code
from tests.engine.story import WHOLE_PASS
from tests.engine.test_report import report_of
from tests.engine.test_report_markup import FOUL_TEXT, HOSTILE, NASTY, foul

SIGNS = {
    "textbackslash": "\\",
    "textasciicircum": "^",
    "textasciitilde": "~",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
    "textquotedbl": '"',
    "textquotesingle": "'",
    "textasciigrave": "`",
    "textrightarrow": "→",
    "allowbreak": "",
    "texttt": "",
}
STANDINS = {r"$\delta$": "δ", "$-$": "−", r"$\leq$": "≤", r"$\geq$": "≥"}


def read(tex: str) -> str:
    """What TeX sets of a line: control words by their names, groups opened, ligatures refused."""
    assert not re.search(r"--|,,|<<|>>|``|''", tex)
    for math, sign in STANDINS.items():
        tex = tex.replace(math, f"\0{sign}")
    out, at, depth = [], 0, 0
    while at < len(tex):
        if tex[at] == "\\":
            word = re.match(r"\\([a-z]+|.)", tex[at:])
            assert word is not None
            out.append(SIGNS[word[1]] if len(word[1]) > 1 else word[1])
            at += len(word[0])
            if len(word[1]) > 1:
                assert tex[at] == "{"  # or the word would eat the space after it
            continue
        assert tex[at] not in "$&#%_^"
        depth += {"{": 1, "}": -1}.get(tex[at], 0)
        assert depth >= 0
        out.append({"{": "", "}": "", "~": " ", "\0": ""}.get(tex[at], tex[at]))
        at += 1
    assert depth == 0
    return "".join(out)


line = st.text(
    st.sampled_from("\\{}$&#^_~%<>\"'`|[]*-, 09aé—δ→中\U0001f600\u202e\x00\n") | st.characters(codec="utf-8")
)


def standing(text: str) -> str:
    """Printable text with all that is not Latin, nor a sign of own words, spelled as code points."""
    return "".join(c if c.isascii() or c in SIGNS_KEPT else f"[U+{ord(c):04X}]" for c in printable(text))


SIGNS_KEPT = "".join(
    c
    for c in (*map(chr, range(0xA1, 0x180)), *"–—‘’“”„‚‹›•…€™†‡‰δ→−≤≥")
    # of Latin Extended-A the T1 encoding has only a part
    if c not in "\xadĀāĈĉĊċĒēĔĕĖėĜĝĠġĢģĤĥĦħĨĩĪīĬĭĮįĲĳĴĵĶķĸĻļĿŀŅņŉŊŋŌōŎŏŖŗŜŝŦŧŨũŪūŬŭŲųŴŵŶŷſ"
)


@given(line)
def test_any_text_survives_latex(text):
    assert read(latex([text])) == read(latex([Code(text)])) == standing(text)


def test_letters_by_hand():
    assert latex(["50 % of a_b & c#d $x$ {y} \\ ~ ^"]) == (
        r"50 \% of a\_b \& c\#d \$x\$ \{y\} \textbackslash{} \textasciitilde{} \textasciicircum{}"
    )
    assert latex(["1 722 408"]) == "1~722~408"
    assert latex(["--,,"]) == "-{}-,{},"
    assert latex(["[x]"]) == "{[}x]"  # bare, the end of the row above would take it for a length
    assert latex(["naïve 中"]) == "naïve {[}U+4E2D]"
    assert latex([Code("a  b")]) == r"\texttt{a\ \ b}"
    assert latex([Code("ab" * 7)]) == r"\texttt{abababababab\allowbreak{}ab}"
    assert latex_lines("a\n\nb\x1b") == "\\texttt{a}\\par\n\\mbox{}\\par\n\\texttt{b\\textbackslash{}x1b}\\par"


@pytest.mark.parametrize("n", [1, 2, 3, 4, 11])
def test_columns_fill_the_page(n):
    shares = re.findall(r"[LR]\{([\d.]+)\}", latex_columns(n))
    assert len(shares) == n
    assert sum(map(float, shares)) == pytest.approx(1, abs=0.001)


def sound(tex: str) -> list[tuple[int, int]]:
    """Check a document by plain reading; rows and columns of each table of figures."""
    tables, opened, columns, rows = [], [], 0, 0
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", tex)
    for text in tex.split("\\begin{document}")[1].splitlines():
        bare = re.sub(r"\\[\\{}&]", lambda m: "@" if m[0] == "\\&" else "", text)
        assert bare.count("{") == bare.count("}"), text
        if begun := re.match(r"\\begin\{(\w+)\}(?:\{@\{\}(.*)@\{\}\})?", text):
            opened.append(begun[1])
            columns, rows = len(re.findall("[LR]", begun[2] or "")), 0
        elif ended := re.match(r"\\end\{(\w+)\}", text):
            if ended[1] == "document":
                break
            assert opened.pop() == ended[1]
            if ended[1] == "longtable":
                tables.append((rows, columns))
        elif opened == ["longtable"] and text.endswith("\\\\"):
            assert bare.count("&") == columns - 1, text
            rows += 1
        elif opened == ["longtable"]:
            assert text in ("\\toprule", "\\midrule", "\\endhead", "\\bottomrule")
    assert not opened
    return tables


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return report_of(tmp_path_factory.mktemp("whole"), WHOLE_PASS)["report.tex"]


def test_a_report_has_its_tables(whole):
    tables = sound(whole)
    assert (3, 7) in tables  # two targets under their header
    for row in [
        r"seed & 42 \\",
        r"held-out part of the corpus & 128.98 & 132.89 & 55.20 \\",
        r"outside & total & 2 of 10 & 0.0140 & 0.0700 & L2-H2 \\",
        r"L1-H3 & 0.970 & 0.040 & yes & -0.0010 & 0.0000 & +0.2500 \\",
        r"\texttt{dead} & 2 (16.7 \%) & 1 (8.3 \%) \\",
    ]:
        assert f"\n{row}\n" in whole
    assert "code points" not in whole


def test_hostile_names_leave_the_document_the_same(tmp_path):
    nasty = report_of(tmp_path / "nasty", foul(NASTY, FOUL_TEXT))["report.tex"]
    plain = report_of(tmp_path / "plain", foul("plain.txt", " and so on"))["report.tex"]
    assert sound(nasty) == sound(plain)
    told = foul(r"\end{document} \\ \input{/etc/passwd} % 中", "\\end{quote}\n\\write18{x}")
    tex = report_of(tmp_path / "tex", told)["report.tex"]
    assert sound(tex)
    assert tex.count("\\end{document}") == 1 and "\\input{" not in tex and "\\write18" not in tex
    assert "code points" in tex


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_sets_it(tmp_path):
    (tmp_path / "report.tex").write_text(report_of(tmp_path, foul(NASTY, FOUL_TEXT))["report.tex"], "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert sound(report_of(tmp_path / "hostile", HOSTILE)["report.tex"])
