"""Names, tokens and notes come from outside: their markup is shown, not obeyed."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from engine import events
from engine.generation import Prompt, judge
from engine.heads import HeadMap, ProbeText
from engine.report.words import Code, fenced, html, lines_of, markdown
from tests.engine import story
from tests.engine.story import DIAGNOSED, ONE_PASS, STOCK
from tests.engine.test_report import report_of, rows_of

NASTY = '<script>alert("x")</script> | `tick` ``two`` **bold** [a](http://b) ![i](j) &lt; <b> \\ _u_ ~~s~~ # $x$'
HOSTILE = [
    events.Created(session="story", model=NASTY),
    story.WORKER,
    events.Loaded(**{**vars(story.LOADED), "source": NASTY, "revision": NASTY, "dtype": NASTY}),
    story.diagnosed(map_=HeadMap(STOCK, story.ENTROPY, texts=[ProbeText(NASTY, 16, "\n\x00</td>")])),
    story.started(),
    story.cut(),
    story.ended(perplexity_after={}),
    events.Note(text=NASTY + "\n\n# heading\n\x07"),
]


def foul(name: str, text: str) -> list[events.Event]:
    """A pass whose sources, prompts and texts are all called ``name``, and read ``text``."""
    source = replace(story.BIRDS, source=name, sha256=name, broken_first=[name])
    both = {name: 100.0, "bible.txt": 90.0}
    prompts = [Prompt(name, name, name, name), Prompt("plain", "The fox", "narrative", "en")]
    written = replace(story.generated(), continuations=[judge(prompt, text, 4) for prompt in prompts])
    return [
        *DIAGNOSED,
        written,
        replace(story.contributed(), text=name),
        replace(story.started(targets=name), corpus=[source], heldout_sources_stock=both, perplexity_stock=both),
        replace(story.cut(), heldout_sources=both),
        events.Changed(number=1, step=1, values={"ward": name}),
        story.ended(heldout_sources=both, perplexity_after=both),
        replace(written, stage="pass-1"),
    ]


FOUL_TEXT = f"{NASTY}\n</pre></details>\x1b[31m\n~~~\n```\n````\n# heading\n\n    | a | b |\n---\n<!-- \u202e\x00 -->\t"


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.rows = set(), set(), "", []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append(tag)

    def handle_data(self, data):
        self.text += data


def test_a_hostile_page_is_the_same_page(tmp_path):
    page = Tags(report_of(tmp_path / "hostile", HOSTILE)["report.html"])
    plain = Tags(report_of(tmp_path / "plain", [*DIAGNOSED, *HOSTILE[4:7], events.Note(text="x")])["report.html"])
    assert page.tags == plain.tags and page.attributes == plain.attributes
    assert page.text.count(NASTY) >= 5
    assert '"\\n\\x00</td>"' in page.text


def test_a_page_needs_nothing_from_elsewhere(tmp_path):
    page = report_of(tmp_path, ONE_PASS)["report.html"]
    assert not Tags(page).attributes & {"href", "src", "srcset", "action", "data", "xlink:href"}
    assert not Tags(page).tags & {"script", "link", "iframe", "img", "object", "use"}
    assert "url(" not in page and "@import" not in page
    assert set(re.findall(r"\w+://[^\"\s]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in page


def test_hostile_markdown_renders_as_what_it_is(tmp_path):
    rendered = MarkdownIt("commonmark").enable("table").render(report_of(tmp_path, HOSTILE)["report.md"])
    page = Tags(rendered)
    assert page.tags <= {"h1", "h2", "h3", "h4", "p", "ul", "li", "strong", "code", "pre", "img"} | {
        *("table", "thead", "tbody", "tr", "th", "td")
    }
    assert page.text.count(NASTY) >= 5
    assert page.tags & {"a", "script", "b", "em"} == set()


def rendered(text: str) -> Tags:
    return Tags(MarkdownIt("commonmark").enable("table").enable("strikethrough").render(text))


# such text stands in the middle of a line, as it does in a report; outer blanks do not show there
one_line = st.text(st.characters() | st.sampled_from("`|\\<&*_[]!~# "), max_size=30).filter(str.isprintable)


@given(one_line)
def test_any_text_survives_markdown(text):
    page = rendered(f"x{markdown([text])}x")
    assert page.text.strip() == f"x{text}x"
    assert page.tags == {"p"}


@given(one_line.filter(str.strip))
def test_any_code_survives_markdown_in_a_line_and_in_a_table(text):
    page = rendered(f"x {markdown([Code(text)])} x")
    assert page.tags == {"p", "code"}
    assert page.text.strip() == f"x {text} x"
    cells = rendered(f"| a | b |\n| --- | --- |\n| {markdown([Code(text)], True)} | last |\n")
    assert [line for line in cells.text.split("\n") if line] == ["a", "b", text, "last"]
    assert cells.tags == {"table", "thead", "tbody", "tr", "th", "td", "code"}


@given(st.text())
def test_any_text_survives_html(text):
    page = Tags(f"<p>{html([text, Code(text)])}</p>")
    assert page.tags == {"p", "code"}
    assert not text.isprintable() or page.text == 2 * text


def test_bare_links_stay_text():
    text = markdown(["see https://evil.example, www.evil.example or me@evil.example"])
    reader = MarkdownIt("gfm-like")
    reader.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    assert "<a" not in reader.render(text)
    assert "https\\://" in text and "www\\." in text and "me\\@" in text


def test_characters_that_cannot_be_seen_are_spelled_out():
    assert markdown([Code("a\nb\x1b[31m\u202e")]) == "`a\\nb\\x1b[31m\\u202e`"


def test_hostile_sources_prompts_and_texts_leave_the_page_the_same(tmp_path):
    page = Tags(report_of(tmp_path / "foul", foul(NASTY, FOUL_TEXT))["report.html"])
    plain = Tags(report_of(tmp_path / "plain", foul("plain.txt", " and so on"))["report.html"])
    assert page.tags == plain.tags and page.attributes == plain.attributes
    assert {"details", "summary", "pre", "ul"} <= page.tags
    assert page.text.count(lines_of(FOUL_TEXT)) == 4  # two prompts, at two stages
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", page.text)


def test_hostile_sources_prompts_and_texts_render_in_markdown_as_what_they_are(tmp_path):
    text = report_of(tmp_path / "foul", foul(NASTY, FOUL_TEXT))["report.md"]
    plain = report_of(tmp_path / "plain", foul("plain.txt", " and so on"))["report.md"]
    reader = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    page, same = Tags(reader.render(text)), Tags(reader.render(plain))
    assert page.tags == same.tags
    assert page.text.count(lines_of(FOUL_TEXT)) == 4
    assert [len(part) for part in page.rows] == [len(part) for part in same.rows]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)


def test_hostile_names_stand_in_one_cell_and_start_no_formula(tmp_path):
    name = '=cmd|"/c calc"!A1,\n@x'
    files = report_of(tmp_path, foul(name, " and so on"))
    shown = "'" + name.replace("\n", "\\n")
    assert {row["text"] for row in rows_of(files["perplexities.csv"])} == {"", shown, "bible.txt"}
    assert [row["category"] for row in rows_of(files["generation.csv"])] == 2 * ["", shown, "narrative"]


many_lines = st.lists(st.sampled_from(["`", "```", "\n```\n", "~~~", "\n", "    ", "# ", "<p>"]) | st.characters())


@given(many_lines.map("".join))
def test_any_lines_survive_a_fence(text):
    page = rendered(f"before\n\n{fenced(text)}\n\nafter\n")
    assert page.tags == {"p", "pre", "code"}
    assert page.text == f"before\n{lines_of(text)}\n\nafter\n"
