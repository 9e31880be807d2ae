/* Many records as a few arrays.
 *
 * Partitions are routed to a queue of our own before they are assigned, so that it never holds anything but what
 * partitions have to say, and many records can be taken at a time without the Python binding's callbacks ever running.
 * Everything else stays in the consumer's queue, and is taken from there as events. Records are freed at once after
 * their bytes are copied. Memory grows with what is read, and belongs to the batch. */
#include "client.h"
#include "towpath_native.h"

#include <stdlib.h>
#include <string.h>

enum { EVENT_FETCH = 0x2, EVENT_ERROR = 0x8 };
enum { WRONG_STATE = -172 };
enum { NO_VALUE = 1, NO_KEY = 2 };
enum { FIRST_BYTES = 1 << 16 };
enum { AT_ONCE = 256 };  /* records taken at a time */
enum { AHEAD = 4 };      /* records on their way into the processor's cache: another thread has written them */

struct tn_queues {
    void *client;
    void *records;
    void *rest;
};

static int reserve(tn_bytes *bytes, int64_t used, int64_t more) {
    if (used + more <= bytes->room) return 1;
    int64_t room = bytes->room ? bytes->room : FIRST_BYTES;
    while (room < used + more) room *= 2;
    uint8_t *data = realloc(bytes->data, room);
    if (!data) return 0;
    bytes->data = data;
    bytes->room = room;
    return 1;
}

static int append(tn_bytes *bytes, int64_t item, const void *data, size_t size) {
    int64_t used = bytes->begin[item];
    if (!reserve(bytes, used, size)) return 0;
    if (size) memcpy(bytes->data + used, data, size);
    bytes->begin[item + 1] = used + size;
    return 1;
}

/* Headers of a record one after the other: name's length, name, value's length or -1, value; lengths in four bytes. */
static int append_headers(tn_bytes *bytes, int64_t item, const struct message *message) {
    void *headers;
    int64_t used = bytes->begin[item];
    bytes->begin[item + 1] = used;
    if (client()->message_headers(message, &headers)) return 1;
    const char *name;
    const void *value;
    size_t size;
    for (size_t index = 0; !client()->header_get_all(headers, index, &name, &value, &size); index++) {
        int32_t name_size = (int32_t)strlen(name), value_size = value ? (int32_t)size : -1;
        size_t value_bytes = value ? size : 0;
        if (!reserve(bytes, used, 8 + name_size + value_bytes)) return 0;
        memcpy(bytes->data + used, &name_size, 4);
        memcpy(bytes->data + used + 4, name, name_size);
        memcpy(bytes->data + used + 4 + name_size, &value_size, 4);
        if (value_bytes) memcpy(bytes->data + used + 8 + name_size, value, value_bytes);
        used += 8 + name_size + value_bytes;
    }
    bytes->begin[item + 1] = used;
    return 1;
}

static int32_t topic_of(tn_batch *batch, void *handle) {
    for (int32_t index = batch->topic_count - 1; index >= 0; index--)
        if (batch->topic_handles[index] == handle) return index;
    int32_t count = batch->topic_count;
    void **handles = realloc(batch->topic_handles, (count + 1) * sizeof *handles);
    if (!handles) return -1;
    batch->topic_handles = handles;
    char **names = realloc(batch->topic_names, (count + 1) * sizeof *names);
    if (!names) return -1;
    batch->topic_names = names;
    if (!(names[count] = strdup(client()->topic_name(handle)))) return -1;
    handles[count] = handle;
    batch->topic_count++;
    return count;
}

static int take(tn_batch *batch, const struct message *message) {
    int64_t item = batch->records;
    int kind;
    if (!append(&batch->values, item, message->payload, message->payload ? message->payload_bytes : 0)) return 0;
    if (!append(&batch->keys, item, message->key, message->key ? message->key_bytes : 0)) return 0;
    if (!append_headers(&batch->headers, item, message)) return 0;
    if ((batch->topics[item] = topic_of(batch, message->topic)) < 0) return 0;
    batch->absent[item] = (message->payload ? 0 : NO_VALUE) | (message->key ? 0 : NO_KEY);
    batch->partitions[item] = message->partition;
    batch->offsets[item] = message->offset;
    batch->timestamps[item] = client()->message_timestamp(message, &kind);
    batch->timestamp_kinds[item] = (int8_t)kind;
    batch->records++;
    return 1;
}

static int note(tn_faults *faults, int code, const char *text, const char *topic, int32_t partition, int64_t offset) {
    tn_fault *items = realloc(faults->items, (faults->count + 1) * sizeof *items);
    if (!items) return 0;
    faults->items = items;
    items[faults->count++] =
        (tn_fault){code, text ? strdup(text) : NULL, topic ? strdup(topic) : NULL, partition, offset};
    return 1;
}

static void faults_free(tn_faults *faults) {
    for (int32_t index = 0; index < faults->count; index++) {
        free(faults->items[index].text);
        free(faults->items[index].topic);
    }
    free(faults->items);
}

static int take_or_note(tn_batch *batch, const struct message *message) {
    if (!message->error) return take(batch, message);
    const char *topic = message->topic ? client()->topic_name(message->topic) : NULL;
    return note(&batch->faults, message->error, client()->message_errstr(message), topic, message->partition,
                message->offset);
}

/* Takes in what the queue has, waiting for the first record if asked to; 0: no memory. All that was taken is freed. */
static int take_records(tn_batch *batch, void *queue, int64_t most, int wait_ms) {
    struct message *messages[AT_ONCE];
    ssize_t count = client()->consume_batch_queue(queue, 0, messages, most < AT_ONCE ? most : AT_ONCE);
    if (count <= 0 && wait_ms) count = client()->consume_batch_queue(queue, wait_ms, messages, 1);
    int good = 1;
    while (count > 0) {
        for (ssize_t index = 0; index < count; index++) {
            if (index + AHEAD < count) __builtin_prefetch(messages[index + AHEAD]->payload);
            good = good && take_or_note(batch, messages[index]);
            client()->message_destroy(messages[index]);
        }
        int64_t left = most - batch->records;
        if (!good || batch->faults.count || !left) break;
        count = client()->consume_batch_queue(queue, 0, messages, left < AT_ONCE ? left : AT_ONCE);
    }
    return good;
}

static int take_errors(tn_faults *faults, void *queue) {
    int good = 1;
    void *event;
    while (good && (event = client()->queue_poll(queue, 0))) {
        int type = client()->event_type(event);
        if (type == EVENT_FETCH) {
            good = note(faults, WRONG_STATE, "records came of a partition that was not routed", NULL, -1, -1);
        } else if (type == EVENT_ERROR) {
            struct topic_partition *at = client()->event_topic_partition(event);
            good = note(faults, client()->event_error(event), client()->event_error_string(event),
                        at ? at->topic : NULL, at ? at->partition : -1, at ? at->offset : -1);
            if (at) client()->topic_partition_destroy(at);
        }
        client()->event_destroy(event);
    }
    return good;
}

static tn_batch *batch_new(int64_t most) {
    tn_batch *batch = calloc(1, sizeof *batch);
    if (!batch) return NULL;
    batch->absent = malloc(most);
    batch->topics = malloc(most * sizeof *batch->topics);
    batch->partitions = malloc(most * sizeof *batch->partitions);
    batch->offsets = malloc(most * sizeof *batch->offsets);
    batch->timestamps = malloc(most * sizeof *batch->timestamps);
    batch->timestamp_kinds = malloc(most);
    batch->values.begin = malloc((most + 1) * sizeof(int64_t));
    batch->keys.begin = malloc((most + 1) * sizeof(int64_t));
    batch->headers.begin = malloc((most + 1) * sizeof(int64_t));
    if (!batch->absent || !batch->topics || !batch->partitions || !batch->offsets || !batch->timestamps ||
        !batch->timestamp_kinds || !batch->values.begin || !batch->keys.begin || !batch->headers.begin) {
        tn_batch_free(batch);
        return NULL;
    }
    batch->values.begin[0] = batch->keys.begin[0] = batch->headers.begin[0] = 0;
    return batch;
}

/* The queues of a consumer to which no partition has been assigned yet; NULL: out of memory. */
tn_queues *tn_queues_new(void *handle) {
    tn_queues *queues = malloc(sizeof *queues);
    if (!queues) return NULL;
    queues->client = handle;
    queues->records = client()->queue_new(handle);
    queues->rest = client()->queue_get_consumer(handle);
    return queues;
}

/* To be called before a partition is assigned, each time; 0: the client does not have it. */
int tn_route(tn_queues *queues, const char *topic, int32_t partition) {
    void *from = client()->queue_get_partition(queues->client, topic, partition);
    if (!from) return 0;
    client()->queue_forward(from, queues->records);
    client()->queue_destroy(from);
    return 1;
}

void tn_queues_free(tn_queues *queues) {
    client()->queue_destroy(queues->rest);
    client()->queue_destroy(queues->records);
    free(queues);
}

/* Reads what is there, at most so many records; waits only for the first.
 * NULL: out of memory, and what was taken from the queues meanwhile is lost. */
tn_batch *tn_fetch(tn_queues *queues, int64_t most, int wait_ms) {
    tn_batch *batch = batch_new(most);
    if (!batch) return NULL;
    if (take_errors(&batch->faults, queues->rest) &&
        take_records(batch, queues->records, most, batch->faults.count ? 0 : wait_ms))
        return batch;
    tn_batch_free(batch);
    return NULL;
}

void tn_batch_free(tn_batch *batch) {
    if (!batch) return;
    free(batch->values.data);
    free(batch->values.begin);
    free(batch->keys.data);
    free(batch->keys.begin);
    free(batch->headers.data);
    free(batch->headers.begin);
    free(batch->absent);
    free(batch->topics);
    free(batch->partitions);
    free(batch->offsets);
    free(batch->timestamps);
    free(batch->timestamp_kinds);
    free(batch->topic_handles);
    for (int32_t index = 0; index < batch->topic_count; index++) free(batch->topic_names[index]);
    free(batch->topic_names);
    faults_free(&batch->faults);
    free(batch);
}
