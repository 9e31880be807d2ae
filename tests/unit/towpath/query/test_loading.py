import pytest

from towpath.query import QueryLoadError, load_query


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that can be imported by name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def test_a_query_is_found_by_its_module():
    assert load_query("queries.key_count").app == "key_count"


def test_settings_are_text_or_values_and_become_arguments_of_build():
    plan = load_query("queries.key_count", {"partitions": "4", "replicas": 2, "emit": "each", "topic": "other"})
    assert plan.stage("source").inputs[0].topic == "other"
    assert plan.stage("count").parallelism == 2
    assert plan.stage("count").inputs[0].partitions == 4


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("queries.keycount", None, r"there is no module 'queries.keycount'; did you mean 'queries.key_count'\?"),
        ("nothing_like_it", None, "there is no module 'nothing_like_it'$"),
        ("key_count", None, r"there is no module 'key_count'; did you mean 'queries.key_count'\?"),
        ("q0", None, r"there is no module 'q0'; did you mean 'queries.q0'\?"),
        ("queries/key_count.py", None, "write it as `package.module`, not as a path"),
        ("queries.nexmark_schema", None, "module 'queries.nexmark_schema' has no query"),
        ("queries.key_count:quer", None, r"has no 'quer'; did you mean 'query'\?"),
        ("queries.key_count:build", None, "is function, not a query"),
        ("queries.key_count", {"emitt": "each"}, r"no setting 'emitt'; did you mean 'emit'\? \(settings: emit, "),
        ("queries.key_count", {"emit": "all"}, "setting emit='all'"),
        ("queries.key_count", {"partitions": "many"}, "setting partitions='many': Expected `int`"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(name, settings, message):
    with pytest.raises(QueryLoadError, match=message) as raised:
        load_query(name, settings)
    assert "\n" not in str(raised.value)


def test_a_missing_dependency_of_the_module_is_named_not_the_module(module):
    with pytest.raises(QueryLoadError, match="needs 'no_such_library', which is not installed"):
        load_query(module("needs_something", "import no_such_library\n"))


def test_a_query_of_another_name_is_pointed_out(module):
    text = "from queries.q0 import build\nmine = build()\n"
    with pytest.raises(QueryLoadError, match="write offers_mine:mine"):
        load_query(module("offers_mine", text))
    assert load_query("offers_mine:mine").app == "q0"


def test_a_module_without_build_takes_no_settings(module):
    name = module("no_build", "from queries.q0 import query\n")
    with pytest.raises(QueryLoadError, match="takes no settings"):
        load_query(name, {"emit": "each"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query = 1 / 0\n", r"module '\w+': .*\.py, line 1: ZeroDivisionError: division by zero"),
        ("x = 1\nquery = (\n", r"\.py, line 2: '\(' was never closed"),
        ("from towpath import Querry\n", r"line 1: ImportError: cannot import name 'Querry'"),
        (
            "from towpath import Query\n\nQuery('q').sourc('t')\n",
            r"line 3: AttributeError: .* has no attribute 'sourc'",
        ),
        ("from towpath import Query\nQuery(7, 8, 9)\n", r"line 2: TypeError: "),
    ],
)
def test_what_fails_in_the_module_is_one_line_with_its_place(module, text, message):
    with pytest.raises(QueryLoadError, match=message) as raised:
        load_query(module(f"fails_{abs(hash(text))}", text))
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is not None
