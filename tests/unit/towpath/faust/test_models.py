from datetime import UTC, datetime

import pytest

from towpath import faust


class Account(faust.Record):
    name: str
    active: bool = True


class Order(faust.Record, serializer="json"):
    account: Account
    amount: int
    tags: list[str] = None
    at: datetime | None = None


class Checked(faust.Record, validation=True):
    amount: int


def test_a_record_is_made_read_and_written():
    order = Order(account=Account("x"), amount=5)
    assert order.dumps() == b'{"account":{"name":"x","active":true},"amount":5,"tags":null,"at":null}'
    assert Order.loads(b'{"account":{"name":"x"},"amount":5,"more":1,"tags":[]}') == Order(Account("x"), 5, [])
    assert Order.loads(b'{"account":{"name":"x"},"amount":5,"tags":[],"at":"2026-01-02T03:04:05Z"}').at == datetime(
        2026, 1, 2, 3, 4, 5, tzinfo=UTC
    )


def test_a_record_has_a_dict_a_copy_and_a_text():
    account = Account("x")
    assert account.asdict() == {"name": "x", "active": True}
    assert account.derive(name="y") == Account("y")
    assert repr(account) == "Account(name='x', active=True)"
    assert Order(account, 1).to_representation()["account"] == {"name": "x", "active": True}
    assert Account.from_data({"name": "z"}) == Account("z")


@pytest.mark.parametrize("data", [b"{}", b'{"name":5}', b"[]", b"x", b"\xff"])
def test_what_is_no_such_record_is_refused_when_read(data):
    with pytest.raises(faust.ValidationError, match="not a Account"):
        Account.loads(data)


def test_a_validated_record_is_checked_when_it_is_made_too():
    assert Checked(amount=5).amount == 5
    with pytest.raises(faust.ValidationError, match=r"Checked\.amount: Expected `int`, got `str`"):
        Checked(amount="5")
    assert Account(name=5).name == 5


def test_a_field_of_the_class_is_its_name_also_if_it_has_a_default():
    assert Account.name.ident == "Account.name"
    assert Account.active.getattr(Account("x", active=False)) is False
    with pytest.raises(AttributeError, match="'Account' has no attribute 'nme'"):
        _ = Account.nme


def test_a_subclass_has_the_fields_of_both():
    class Premium(Account):
        name: str
        level: int = 1

    assert Premium("x", level=2).asdict() == {"name": "x", "active": True, "level": 2}
    assert Premium.name.model is Premium
    with pytest.raises(TypeError, match="name"):
        Premium()


@pytest.mark.parametrize(
    "options", [{"serializer": "pickle"}, {"include_metadata": True}, {"polymorphic_fields": True}]
)
def test_options_that_would_change_the_form_are_refused(options):
    with pytest.raises(faust.UnsupportedFaustFeatureError):
        type(faust.Record)("Odd", (faust.Record,), {"__annotations__": {"x": int}}, **options)
