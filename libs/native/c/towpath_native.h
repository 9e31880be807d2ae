/* What Python sees; build_native.py gives it to cffi. */
#ifndef TOWPATH_NATIVE_H
#define TOWPATH_NATIVE_H

#include <stddef.h>
#include <stdint.h>

struct client;
const struct client *client(void);

const char *tn_load(const char *extension);
const char *tn_client_name(void *handle);

/* Bytes one after the other; begin[i] … begin[i + 1] is item i. */
typedef struct {
    uint8_t *data;
    int64_t room;
    int64_t *begin;
} tn_bytes;

/* An error among the records; no topic, a partition or offset below 0: it is about none. */
typedef struct {
    int code;
    char *text;
    char *topic;
    int32_t partition;
    int64_t offset;
} tn_fault;

typedef struct {
    int32_t count;
    tn_fault *items;
} tn_faults;

/* What one call read. Arrays have one entry a record. */
typedef struct {
    int64_t records;
    tn_bytes values;
    tn_bytes keys;
    tn_bytes headers;
    uint8_t *absent;        /* bit 0: no value, bit 1: no key */
    int32_t *topics;        /* index into topic_names */
    int32_t *partitions;
    int64_t *offsets;
    int64_t *timestamps;    /* ms */
    int8_t *timestamp_kinds;
    int32_t topic_count;
    void **topic_handles;
    char **topic_names;
    tn_faults faults;
} tn_batch;

typedef struct tn_queues tn_queues;
tn_queues *tn_queues_new(void *handle);
int tn_route(tn_queues *queues, const char *topic, int32_t partition);
void tn_queues_free(tn_queues *queues);
tn_batch *tn_fetch(tn_queues *queues, int64_t most, int wait_ms);
void tn_batch_free(tn_batch *batch);

/* Byte strings where they lie. */
typedef struct {
    int64_t length;
    uint64_t *address;
    int64_t *size;
    uint8_t *absent;
    int32_t chunk_count;
    void *chunks;
} tn_strings;

tn_strings *tn_strings_take(void *stream);
void tn_strings_free(tn_strings *strings);

int tn_produce(void *handle, const char *topic, int32_t partition, int64_t count, const uint64_t *keys,
               const int64_t *key_sizes, const uint64_t *values, const int64_t *value_sizes, int32_t *errors);

/* A column of text: row i is data[begin[i]] … data[begin[i + 1]]. */
typedef struct {
    uint8_t *data;
    int64_t *begin;
} tn_text;

tn_text *tn_text_new(int64_t rows, int64_t bytes);
void tn_text_free(tn_text *text);
void *tn_text_export(tn_text *text, int64_t rows, const uint8_t *valid);
void *tn_export_schema(void *exported);
void *tn_export_array(void *exported);
void tn_export_free(void *exported);

enum { TN_INTEGER = 1, TN_FLOAT, TN_BOOLEAN, TN_TEXT };

/* A field of JSON objects, and where its column goes: int64, double, 0 or 1 in a byte, or text with begin[i] … */
typedef struct {
    const char *name;
    int64_t size;
    int32_t kind;
    int64_t least; /* of an integer */
    int64_t most;
    void *values;
    int64_t *begin;
    uint8_t *valid;
} tn_field;

typedef struct tn_decoder tn_decoder;
tn_decoder *tn_decoder_new(int32_t count, const tn_field *fields);
void tn_decoder_free(tn_decoder *decoder);
void tn_decoder_column(tn_decoder *decoder, int32_t index, void *values, int64_t *begin, uint8_t *valid);
int64_t tn_decode(tn_decoder *decoder, int64_t records, const uint8_t *data, const int64_t *begin,
                  const int64_t *end, const uint8_t *absent, uint8_t *odd);

#endif
