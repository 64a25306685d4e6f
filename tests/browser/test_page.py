"""The page in a headless Chromium: no complaint, plot and request browser by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser._runs import CHUNKS, EVIDENCE, HOSTILE, SELECTED
from tests.browser.conftest import Opened

Open = Callable[..., Opened]


def positions(ranges: str) -> set[int]:
    found: set[int] = set()
    for run in filter(None, ranges.split(",")):
        begin, _, end = run.partition("-")
        found |= set(range(int(begin), int(end or begin) + 1))
    return found


def marked(page: Any, side: int) -> dict[int, str]:
    """Position and text of each marked token in one of the two texts."""
    found = (
        page.locator(".side")
        .nth(side)
        .locator("mark")
        .evaluate_all("all => all.map(m => [m.title, m.textContent])")
    )
    return {int(title.split(",")[0].removeprefix("token ")): text for title, text in found}


def choose(page: Any, root: str, label: str, value: str) -> None:
    page.locator(root).get_by_label(label, exact=True).select_option(value)


@pytest.mark.parametrize("name", ["shown", "hostile", "two"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_complaint_no_request_no_overflow(opened: Open, name: str, width: int, scheme: str) -> None:
    one = opened(name, width, scheme)
    one.page.wait_for_timeout(100)
    assert one.complaints == []
    assert [url for url in one.asked if not url.startswith("data:")] == [one.page.url]
    one.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert one.page.evaluate("document.documentElement.scrollWidth") <= width
    assert all(one.page.locator("figure img").evaluate_all("all => all.map(i => i.naturalWidth > 100)"))
    assert one.page.evaluate("window.pwned") is None


def test_hostile_text_is_read_as_text(opened: Open) -> None:
    page = opened("hostile").page
    answers = page.locator(".answer").all_inner_texts()
    assert all("<script>window.pwned = 1</script>" in text for text in answers)
    assert all("⟨U+001B⟩[31mred⟨U+001B⟩[0m [red] {{ 7 * 7 }} ⟨U+202E⟩evil" in text for text in answers)
    assert all("שלום" in text for text in answers)
    # token 4 of the context is the hostile text, and nobody recomputes it
    assert HOSTILE[:20] in page.locator(".side .text").first.inner_text()
    assert page.locator("main img").count() == page.locator("figure img").count()


def test_hover_shows_a_points_numbers(opened: Open) -> None:
    page = opened().page
    dot = page.locator('#pareto .dot[aria-label^="QCFuse: ρ = 0.3"]')
    assert not page.locator(".tip").is_visible()
    dot.locator(".ring").hover()
    text = page.locator(".tip").inner_text()
    for part in ("QCFuse", "ρ = 0.3", "quality 0.", "TTFT ", "[", "x full prefill", "n = 4"):
        assert part in text
    page.mouse.move(1, 1)
    assert not page.locator(".tip").is_visible()


def test_keyboard_walks_the_points(opened: Open) -> None:
    page = opened().page
    page.locator("#pareto button").focus()
    page.keyboard.press("Tab")
    focused = "document.activeElement.getAttribute('aria-label')"
    first = page.evaluate(focused)
    assert page.locator(".tip").inner_text().split("\n")[0] == first.split(":")[0]
    page.keyboard.press("ArrowRight")
    second = page.evaluate(focused)
    assert second != first
    assert page.locator(".tip b").inner_text() == second.split(":")[0]
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(focused) == first
    page.keyboard.press("End")
    last = page.evaluate(focused)
    page.keyboard.press("ArrowRight")  # round and round
    assert page.evaluate(focused) == first != last
    page.keyboard.press("Escape")
    assert not page.locator(".tip").is_visible()
    # one stop for the whole plot
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.plot')") is None


def test_toggles_and_choices_of_the_plot(opened: Open) -> None:
    one = opened("two")
    page, plot = one.page, one.page.locator("#pareto")
    assert plot.locator(".dot").count() == 2 + 3 * 2
    plot.get_by_label("QCFuse", exact=True).uncheck()
    assert plot.locator(".dot").count() == 6
    assert plot.locator('.dot[aria-label^="QCFuse"]').count() == 0
    plot.get_by_label("QCFuse", exact=True).check()
    assert plot.locator(".bar").count() > 0
    plot.get_by_label("intervals").uncheck()
    assert plot.locator(".bar").count() == 0
    assert plot.locator(".front").count() == 1
    plot.get_by_label("Pareto front").uncheck()
    assert plot.locator(".front").count() == 0
    before = plot.locator(".dot").evaluate_all("all => all.map(d => d.getAttribute('aria-label'))")
    choose(page, "#pareto", "Dataset", "ruler/mq")
    assert before != plot.locator(".dot").evaluate_all("all => all.map(d => d.getAttribute('aria-label'))")
    choose(page, "#pareto", "Run", "speeds")
    choose(page, "#pareto", "Store", "5x")
    labels = plot.locator(".dot").evaluate_all("all => all.map(d => d.getAttribute('aria-label'))")
    assert all("store at 5x" in label or label.startswith("Full prefill") for label in labels)
    assert len(labels) == 3
    plot.get_by_role("button").click()
    assert plot.locator(".dot").count() == 0
    assert "No method is chosen" in plot.inner_text()
    assert one.complaints == []


def test_selected_tokens_are_marked_in_the_context(opened: Open) -> None:
    page = opened().page
    assert page.locator(".side").count() == 2
    for side, method in enumerate(("qcfuse", "prophetkv")):
        wanted = positions(SELECTED[method, 0.3])
        assert marked(page, side) == {at: f" r0t{at}" for at in wanted}
        other = positions(SELECTED["prophetkv" if method == "qcfuse" else "qcfuse", 0.3])
        own = page.locator(".side").nth(side).locator("mark.own").all_inner_texts()
        assert {text.strip() for text in own} == {f"r0t{at}" for at in wanted - other}
        chunks = page.locator(".side").nth(side).locator(".chunk")
        assert chunks.count() == len(CHUNKS)
        evidence = page.locator(".side").nth(side).locator(".ev").all_inner_texts()
        assert [text.strip() for text in evidence] == [f"r0t{at}" for at in EVIDENCE]
    # the whole context is there, in order, chunk by chunk
    texts = page.locator(".side").first.locator(".text").evaluate_all("all => all.map(t => t.textContent)")
    assert "".join(texts).split() == [f"r0t{at}" for at in range(24)]
    underline = page.locator(".side .ev").first.evaluate("e => getComputedStyle(e).textDecorationLine")
    assert underline == "underline"
    background = "e => getComputedStyle(e).backgroundColor"
    assert page.locator("mark").first.evaluate(background) != page.locator(".chunk").first.evaluate(
        background
    )
    strips = page.locator(".strip").all_inner_texts()
    assert len(strips) == 3
    assert "6 tokens, 2/2 evidence" in next(text for text in strips if text.startswith("QCFuse"))
    assert "share 2 tokens: 33 % of QCFuse's" in page.locator("#browser").inner_text()


def test_choices_of_the_request_browser(opened: Open) -> None:
    one = opened()
    page, root = one.page, one.page.locator("#browser")
    choose(page, "#browser", "ρ", "0.1")
    assert set(marked(page, 0)) == positions(SELECTED["qcfuse", 0.1])
    assert "qcfuse says r0 at 0.1" in root.inner_text()
    choose(page, "#browser", "Request", "r1")
    assert marked(page, 0)[1] == " r1t1"
    choose(page, "#browser", "Text under", "CacheBlend")
    assert set(marked(page, 0)) == {8, 9, 10, 11}
    # it narrows with depth: at layer 0 it recomputes all
    layer = root.get_by_role("slider")
    layer.focus()
    page.keyboard.press("Home")
    assert len(marked(page, 0)) == 24
    assert page.evaluate("document.activeElement.type") == "range"
    choose(page, "#browser", "beside", "")
    assert page.locator(".side").count() == 1
    assert root.locator(".answer").count() == 1 + 5
    root.get_by_label("CacheBlend", exact=True).uncheck()
    assert root.locator(".answer").count() == 5
    assert page.locator(".strip").count() == 2
    assert page.locator(".lane").count() == 4
    choose(page, "#browser", "Dataset", "ruler/mq")
    assert "another" in root.inner_text()
    assert one.complaints == []


def test_timeline_of_a_request(opened: Open) -> None:
    page = opened().page
    lanes = page.locator(".lane")
    assert lanes.count() == 5
    fused = lanes.nth(2)
    assert fused.locator(".s-recompute").count() == 4
    titles = fused.locator("title").all_text_contents()
    assert "select: 0.0 to 100.0 ms" in titles
    assert "layer 2: 120.0 to 130.0 ms" in titles
    assert any(title.startswith("layer 2 waits for its cache") for title in titles)
    assert any(title.startswith("reading for fusion") for title in titles)


def test_a_run_without_prompts_says_so(opened: Open) -> None:
    page = opened("two").page
    assert "speeds kept no prompts" in page.locator("#requests").inner_text()
    choose(page, "#browser", "Run", "speeds")
    assert page.locator(".side").count() == 0
    assert page.locator(".answer").count() == 4
    assert "this run kept no timeline" in page.locator("#browser").inner_text()


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const left_out = 'script, .skip, .hidden, .predicted, svg title';
  const ground = (e) => {
    const own = rgba(getComputedStyle(e).backgroundColor);
    return e === document.body || own[3] ? light(own) : ground(e.parentElement);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const said = walker.currentNode.data.trim().slice(0, 30);
    if (!said || !parent.checkVisibility() || parent.closest(left_out)) continue;
    const style = getComputedStyle(parent);
    const pair = [light(rgba(parent.closest('svg') ? style.fill : style.color)), ground(parent)];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${parent.tagName}.${parent.className} ${said}`);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(opened: Open, scheme: str) -> None:
    page = opened("two", 1280, scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.locator("#pareto .ring").first.hover()
    assert page.evaluate(CONTRAST) == []


def test_names_and_landmarks_for_assistive_technology(opened: Open) -> None:
    page = opened("two").page
    assert page.locator("html").get_attribute("lang") == "en"
    for selector in ("main", "nav[aria-label]", "h1"):
        assert page.locator(selector).count() == 1
    unnamed = page.evaluate(
        "[...document.querySelectorAll('select, input, button')]"
        ".filter(e => !(e.labels?.length || e.textContent.trim())).length"
    )
    assert unnamed == 0
    assert all(page.locator("img").evaluate_all("all => all.map(i => i.alt.length > 20)"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_print_holds_everything(opened: Open, tmp_path: Any) -> None:
    one = opened("shown", 1280, "dark")
    one.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert one.page.locator("details:not([open])").count() == 0
    one.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert one.page.locator("details[open]").count() == 0
    path = tmp_path / "page.pdf"
    one.page.pdf(path=path, format="A4")
    assert path.stat().st_size > 20_000
    one.page.emulate_media(media="print")
    assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert one.complaints == []


def test_every_methods_marks_can_be_read(opened: Open) -> None:
    """Contrast of marked text under the colour of every method, built in or not."""
    from bench.figures.style import _BUILT_IN, _OTHERS

    colours = [style.colour for style in _BUILT_IN.values()] + [colour for colour, _ in _OTHERS]
    colours.remove("#000000")  # full prefill's: it is given the colour of the text, and no marks
    for scheme in ("light", "dark"):
        page = opened("shown", 1280, scheme).page
        for colour in colours:
            page.evaluate(
                "c => document.querySelectorAll('.side').forEach(e => e.style.setProperty('--c', c))", colour
            )
            assert page.evaluate(CONTRAST) == [], (scheme, colour)
