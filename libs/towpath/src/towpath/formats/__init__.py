"""Records whose schema a registry has: Avro and Protobuf in the wire format of Confluent's schema registry.

::

    record value = 0 (1 byte) + schema id (4 bytes, big endian) + [Protobuf: which message of the file] + data

Reading and writing is done by the serialisers of ``confluent-kafka``, which need ``towpath[registry]``; modules that
import them are loaded only where a query has such topics.
"""

# See :mod:`towpath.operators`: the query package has to begin.
import towpath.query  # noqa: F401
