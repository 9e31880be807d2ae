/* Many records of one partition into the client's queue, from where they lie. */
#include "client.h"
#include "towpath_native.h"

#include <stdlib.h>

enum { FLAG_COPY = 0x2 };

/* Queues records. An address of 0 stands for no key, or no value. errors[i] is 0 where record i is in the queue,
 * librdkafka's error otherwise. Gives how many are queued, or -1: out of memory, none is. */
int tn_produce(void *handle, const char *topic, int32_t partition, int64_t count, const uint64_t *keys,
               const int64_t *key_sizes, const uint64_t *values, const int64_t *value_sizes, int32_t *errors) {
    struct message *messages = calloc(count ? count : 1, sizeof *messages);
    void *at = messages ? client()->topic_new(handle, topic, NULL) : NULL;
    if (!at) {
        free(messages);
        return -1;
    }
    for (int64_t item = 0; item < count; item++) {
        messages[item].payload = (void *)(uintptr_t)values[item];
        messages[item].payload_bytes = value_sizes[item];
        if (keys) {
            messages[item].key = (void *)(uintptr_t)keys[item];
            messages[item].key_bytes = key_sizes[item];
        }
    }
    int queued = client()->produce_batch(at, partition, FLAG_COPY, messages, (int)count);
    for (int64_t item = 0; item < count; item++) errors[item] = messages[item].error;
    client()->topic_destroy(at);
    free(messages);
    return queued;
}
