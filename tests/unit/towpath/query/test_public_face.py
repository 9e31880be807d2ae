import towpath
import towpath.faust
import towpath.query


def test_all_names_what_is_there():
    for module in (towpath, towpath.query, towpath.faust):
        assert all(hasattr(module, name) for name in module.__all__)
