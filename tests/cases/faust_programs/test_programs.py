"""Programs as Faust's documentation writes them run with nothing but the import changed."""

import importlib
import json
from collections import Counter

import pytest

from towpath.query import load_query
from towpath.testing import StageDriver

PROGRAMS = ("greetings", "page_views", "word_count")


def program(name):
    return importlib.import_module(f"tests.cases.faust_programs.{name}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_the_import_differs_from_a_program_for_faust(name):
    source = program(name).__loader__.get_source(None)
    assert "from towpath import faust" in source
    assert source.replace("from towpath import faust", "import faust").count("towpath") == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_found_by_its_module(name):
    assert load_query(f"tests.cases.faust_programs.{name}").stages


def test_greetings_are_printed(capsys):
    driver = StageDriver(program("greetings").app)
    driver.pipe("greetings", [b"hello", b"world"], partition=0)
    driver.run_until_idle()
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("b'")] == ["b'hello'", "b'world'"]
    driver.close()


def test_page_views_are_counted_whatever_partition_they_arrive_in():
    driver = StageDriver(program("page_views").app, replicas={"count_page_views": 2})
    views = [{"id": page, "user": "u"} for page in ("home", "about", "home", "home")]
    for partition, view in enumerate(views):
        driver.pipe("page_views", [view], partition=partition)
    driver.run_until_idle()
    assert driver.state("count_page_views", "page_views") == {b"home": 3, b"about": 1}
    driver.close()


def test_page_views_survive_crashes_and_a_poison_record():
    driver = StageDriver(program("page_views").app)
    driver.pipe("page_views", [{"id": "home", "user": "u"}, b"{", {"id": "home"}, {"id": "home", "user": "v"}])
    driver.run_until_idle()
    driver.crash("count_page_views", lose_stores=True)
    driver.pipe("page_views", [{"id": "home", "user": "w"}])
    driver.run_until_idle()
    assert driver.state("count_page_views", "page_views") == {b"home": 3}
    assert len(driver.output("page_views.dead-letter")) == 2
    driver.close()


def test_words_of_posts_are_counted_by_two_agents():
    driver = StageDriver(program("word_count").app, replicas={"count_words": 2})
    bodies = ["The quick brown fox", "the lazy dog", "The end"]
    driver.pipe("posts", [{"author": "a", "body": body} for body in bodies])
    driver.run_until_idle()
    expected = Counter(word for body in bodies for word in body.lower().split())
    assert driver.state("count_words", "word_counts") == {word.encode(): n for word, n in expected.items()}
    updates = [json.loads(value) for value in driver.rows("word-count-updates")]
    assert Counter(update["word"] for update in updates) == expected
    assert {update["word"]: update["count"] for update in updates} == expected
    driver.close()
