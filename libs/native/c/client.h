/* The part of librdkafka's public interface that is used here, called through the copy that confluent-kafka has
 * loaded. Declared anew because its wheel ships no header; struct message is rd_kafka_message_t, whose layout is part
 * of librdkafka's stable ABI. */
#ifndef TOWPATH_CLIENT_H
#define TOWPATH_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct message {
    int error;
    void *topic;
    int32_t partition;
    void *payload;
    size_t payload_bytes;
    void *key;
    size_t key_bytes;
    int64_t offset;
    void *private;
};

struct topic_partition {
    char *topic;
    int32_t partition;
    int64_t offset;
};

struct client {
    void *(*queue_get_consumer)(void *client);
    void *(*queue_get_partition)(void *client, const char *topic, int32_t partition);
    void *(*queue_new)(void *client);
    void (*queue_forward)(void *queue, void *to);
    void (*queue_destroy)(void *queue);
    void *(*queue_poll)(void *queue, int timeout_ms);
    int (*event_type)(const void *event);
    int (*event_error)(void *event);
    const char *(*event_error_string)(void *event);
    struct topic_partition *(*event_topic_partition)(void *event);
    void (*topic_partition_destroy)(struct topic_partition *partition);
    void (*event_destroy)(void *event);
    ssize_t (*consume_batch_queue)(void *queue, int timeout_ms, struct message **messages, size_t room);
    void (*message_destroy)(struct message *message);
    const char *(*message_errstr)(const struct message *message);
    int64_t (*message_timestamp)(const struct message *message, int *kind);
    int (*message_headers)(const struct message *message, void **headers);
    int (*header_get_all)(const void *headers, size_t index, const char **name, const void **value, size_t *bytes);
    const char *(*topic_name)(const void *topic);
    void *(*topic_new)(void *client, const char *topic, void *settings);
    void (*topic_destroy)(void *topic);
    int (*produce_batch)(void *topic, int32_t partition, int flags, struct message *messages, int count);
    const char *(*name)(const void *client);
};

#endif
