"""Describes the extension to setuptools; run by its ``cffi_modules``."""

import re
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
SOURCES = ("client", "fetch", "produce", "json", "text", "strings")

header = (HERE / "c" / "towpath_native.h").read_text()
declarations = re.sub(r"^#.*$|^struct client;$|^const struct client .*$", "", header, flags=re.MULTILINE)

ffibuilder = FFI()
ffibuilder.cdef(declarations)
ffibuilder.set_source(
    "towpath_native._native",
    '#include "towpath_native.h"',
    sources=[f"c/{name}.c" for name in SOURCES],
    include_dirs=["c"],
    libraries=["dl"],
    extra_compile_args=[
        "-O3",
        "-std=gnu11",
        "-Werror=implicit-function-declaration",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
    ],
    optional=True,
)
