"""A report holds names as text, asks nothing from any address, and its links lead somewhere."""

import base64
import hashlib
import re
from dataclasses import replace

from ddsfl.report.pages.report import report_page
from ddsfl.report.pages.report_view import Facts, Report
from tests.support.made_report import SCRIPT, made_comparison, made_learned, made_report, made_tested
from tests.support.reader import Reader, sections


def test_names_are_text_wherever_they_stand():
    evil = f"{SCRIPT}\"'><img src=x onerror=alert(2)>&amp;\u202eabc\n\u2028end"
    names = (evil, f"{evil}2", "c")
    tested = made_tested(names)
    tested = replace(
        tested,
        how=(evil,),
        splits=(evil, "b", "c"),
        measures=tuple(replace(measure, name=evil) for measure in tested.measures),
        mistakes=tuple(replace(one, name=f"{evil}/{evil}.jpg", split=evil) for one in tested.mistakes),
    )
    comparison = replace(made_comparison(names), names=(evil, evil), words=(evil,))
    learned = made_learned(names)
    blocks = tuple(replace(block, name=evil, made_of=evil) for block in learned.blocks)
    learned = replace(learned, blocks=blocks, score_name=evil)
    report = made_report(3, tested=tested, learned=learned, title=evil)
    found = replace(report.found[0], title=evil, advice=evil, examples=(evil,))
    facts = Facts(evil, ((evil, evil),))
    page = report_page(
        replace(
            report,
            comparison=comparison,
            found=(found,),
            facts=(facts,),
            times=((evil, 1.0),),
            left_out=(evil,),
        )
    )
    read = Reader(page)
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert not any(attribute.startswith("on") for _, attributes in read.tags for attribute in attributes)
    assert "\u202e" not in page
    assert "\u2028" not in page
    assert not any(attributes.get("src") == "x" for _, attributes in read.tags)
    shown = f"{SCRIPT}\"'><img src=x onerror=alert(2)>&amp;\\u202eabc\\n\\u2028end"
    assert [name for name, source in sections(page).items() if shown not in Reader(source).text] == [
        "calibration"
    ]


def test_names_that_are_no_text_can_be_written():
    tested = made_tested()
    mistake = replace(tested.mistakes[0], name="caf\udce9\x1b.jpg")
    page = report_page(Report("", tested=replace(tested, mistakes=(mistake,))))
    assert r"caf\xe9\x1b.jpg" in page
    page.encode("utf-8")


def test_nothing_is_asked_from_any_address(full):
    _, page = full
    for _, attributes in Reader(page).tags:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            assert re.match(r"data:|#", attributes.get(name) or "#"), attributes
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'; img-src data:" in page
    [script] = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page


def test_addresses_inside_the_page_lead_somewhere(full):
    _, page = full
    tags = Reader(page).tags
    places = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(places) == len(set(places))
    for _, attributes in tags:
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in places
