/* Many records as a few arrays.
 *
 * Records are taken from the client's queue as events, so that nothing of the Python binding's callbacks runs here, and
 * freed at once after their bytes are copied. Memory grows with what is read, and belongs to the batch. */
#include "client.h"
#include "towpath_native.h"

#include <stdlib.h>
#include <string.h>

enum { EVENT_FETCH = 0x2, EVENT_ERROR = 0x8 };
enum { NO_VALUE = 1, NO_KEY = 2 };
enum { FIRST_BYTES = 1 << 16 };

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

static void note(tn_batch *batch, int error, const char *text, const char *topic, int32_t partition, int64_t offset) {
    batch->error = error;
    batch->error_text = text ? strdup(text) : NULL;
    batch->error_topic = topic ? strdup(topic) : NULL;
    batch->error_partition = partition;
    batch->error_offset = offset;
}

static void note_message(tn_batch *batch, const struct message *message) {
    note(batch, message->error, client()->message_errstr(message),
         message->topic ? client()->topic_name(message->topic) : NULL, message->partition, message->offset);
}

static void note_event(tn_batch *batch, void *event) {
    struct topic_partition *at = client()->event_topic_partition(event);
    note(batch, client()->event_error(event), client()->event_error_string(event), at ? at->topic : NULL,
         at ? at->partition : -1, at ? at->offset : -1);
    if (at) client()->topic_partition_destroy(at);
}

/* Takes in what an event holds; 0: no room. An event with records holds one of them, says librdkafka's documentation. */
static int take_event(tn_batch *batch, void *event, int64_t most) {
    int type = client()->event_type(event);
    if (type == EVENT_ERROR) {
        note_event(batch, event);
        return 1;
    }
    if (type != EVENT_FETCH) return 1;
    const struct message *messages[16];
    size_t count;
    while ((count = client()->event_message_array(event, messages, 16)))
        for (size_t index = 0; index < count; index++) {
            if (messages[index]->error)
                note_message(batch, messages[index]);
            else if (batch->records == most || !take(batch, messages[index]))
                return 0;
        }
    return 1;
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

void *tn_queue(void *handle) { return client()->queue_get_consumer(handle); }

void tn_queue_free(void *queue) { client()->queue_destroy(queue); }

/* Reads what is there, at most so many records and about so many bytes of values; waits only for the first.
 * NULL: out of memory, and what was taken from the queue meanwhile is lost. */
tn_batch *tn_fetch(void *queue, int64_t most, int64_t most_bytes, int wait_ms) {
    tn_batch *batch = batch_new(most);
    if (!batch) return NULL;
    while (batch->records < most && !batch->error && batch->values.begin[batch->records] < most_bytes) {
        void *event = client()->queue_poll(queue, batch->records ? 0 : wait_ms);
        if (!event) break;
        int good = take_event(batch, event, most);
        client()->event_destroy(event);
        if (!good) {
            tn_batch_free(batch);
            return NULL;
        }
    }
    return batch;
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
    free(batch->error_text);
    free(batch->error_topic);
    free(batch);
}
