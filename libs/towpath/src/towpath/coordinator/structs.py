"""Records of the control log inside pydantic models, so that HTTP speaks of them in the log's own words."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class StructField:
    """Annotation of a field whose type is a msgspec struct: ``Annotated[Layer, StructField()]``."""

    def __get_pydantic_core_schema__(self, source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate from an instance or from JSON-like data, and write JSON-like data."""

        def validate(value: Any) -> Any:
            if isinstance(value, source):
                return value
            try:
                return msgspec.convert(value, source)
            except msgspec.ValidationError as error:
                raise ValueError(str(error)) from error

        return core_schema.no_info_plain_validator_function(
            validate,
            metadata={"struct": source},
            serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The struct's schema, by value: its references would not resolve within the document of the whole API."""
        found, definitions = msgspec.json.schema_components([schema["metadata"]["struct"]])
        plain: JsonSchemaValue = _without_references(found[0], definitions)
        return plain


def _without_references(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_without_references(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _without_references(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _without_references(value, definitions) for name, value in schema.items()}
