/* Many records of one partition into the client's queue, from two buffers. */
#include "client.h"
#include "towpath_native.h"

#include <stdlib.h>

enum { FLAG_COPY = 0x2 };
enum { NO_VALUE = 1, NO_KEY = 2 };

/* Queues records; errors[i] is 0 where record i is in the queue, librdkafka's error otherwise.
 * Gives how many are queued, or -1: out of memory, none is. */
int tn_produce(void *handle, const char *topic, int32_t partition, int64_t count, const uint8_t *keys,
               const int64_t *key_begin, const int64_t *key_end, const uint8_t *values, const int64_t *value_begin,
               const int64_t *value_end, const uint8_t *absent, int32_t *errors) {
    struct message *messages = calloc(count ? count : 1, sizeof *messages);
    void *at = messages ? client()->topic_new(handle, topic, NULL) : NULL;
    if (!at) {
        free(messages);
        return -1;
    }
    for (int64_t item = 0; item < count; item++) {
        if (!(absent[item] & NO_VALUE)) {
            messages[item].payload = (void *)(values + value_begin[item]);
            messages[item].payload_bytes = value_end[item] - value_begin[item];
        }
        if (!(absent[item] & NO_KEY)) {
            messages[item].key = (void *)(keys + key_begin[item]);
            messages[item].key_bytes = key_end[item] - key_begin[item];
        }
    }
    int queued = client()->produce_batch(at, partition, FLAG_COPY, messages, (int)count);
    for (int64_t item = 0; item < count; item++) errors[item] = messages[item].error;
    client()->topic_destroy(at);
    free(messages);
    return queued;
}
