"""Names, tokens and notes come from outside: their markup is shown, not obeyed."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from engine import events
from engine.heads import HeadMap, ProbeText
from engine.report.words import Code, html, markdown
from tests.engine import story
from tests.engine.story import DIAGNOSED, ONE_PASS, STOCK
from tests.engine.test_report import report_of

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


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

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
    assert page.tags <= {"h1", "h2", "h3", "p", "ul", "li", "strong", "code", "img"} | {
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
