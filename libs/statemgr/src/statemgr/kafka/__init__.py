"""The Kafka edge: interfaces and the librdkafka implementation."""
