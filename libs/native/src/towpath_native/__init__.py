"""Kafka records as columns: the loops over single records in C.

The classes here work beside confluent-kafka's clients and on the copy of librdkafka that those have loaded. Where
there is no extension (no C compiler when the package was built), the client is one that is not known, or
``TOWPATH_NATIVE=off`` is set, :data:`WHY_NOT` says so and everything has to be done without: the data are the same,
each record costs more.
"""

from towpath_native.extension import WHY_NOT

__all__ = ["WHY_NOT"]
