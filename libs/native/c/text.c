/* Columns of text in Arrow's layout, handed over by Arrow's C data interface. */
#include "arrow.h"
#include "towpath_native.h"

#include <stdlib.h>
#include <string.h>

enum { NULLABLE = 2 };

/* Owns what its array's buffers point to. */
typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
} exported;

typedef struct {
    const void *buffers[3];
} owned;

static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }

static void release_array(struct ArrowArray *array) {
    owned *held = array->private_data;
    for (int index = 0; index < 3; index++) free((void *)held->buffers[index]);
    free(held);
    array->release = NULL;
}

/* A column for so many rows with so many bytes of text at most; NULL: out of memory. */
tn_text *tn_text_new(int64_t rows, int64_t bytes) {
    tn_text *text = calloc(1, sizeof *text);
    if (!text) return NULL;
    text->data = malloc(bytes + 1);
    text->begin = malloc((rows + 1) * sizeof *text->begin);
    if (text->data && text->begin) return text;
    tn_text_free(text);
    return NULL;
}

void tn_text_free(tn_text *text) {
    if (!text) return;
    free(text->data);
    free(text->begin);
    free(text);
}

/* Arrow's bit for each byte; gives the number of zeros. */
static int64_t pack(const uint8_t *valid, int64_t rows, uint8_t *bits) {
    int64_t missing = 0;
    memset(bits, 0, (rows + 7) / 8);
    for (int64_t row = 0; row < rows; row++) {
        bits[row / 8] |= (valid[row] != 0) << row % 8;
        missing += !valid[row];
    }
    return missing;
}

/* Hands a column over: its memory belongs to the array then. The result holds both structures, and is for
 * tn_export_free. NULL: out of memory, nothing is changed. */
void *tn_text_export(tn_text *text, int64_t rows, const uint8_t *valid) {
    exported *out = calloc(1, sizeof *out);
    owned *held = calloc(1, sizeof *held);
    uint8_t *bits = malloc((rows + 7) / 8 + 1);
    if (!out || !held || !bits) {
        free(out);
        free(held);
        free(bits);
        return NULL;
    }
    uint8_t *data = realloc(text->data, text->begin[rows] + 1);
    held->buffers[0] = bits;
    held->buffers[1] = text->begin;
    held->buffers[2] = data ? data : text->data;
    text->data = NULL;
    text->begin = NULL;
    out->schema.format = "U";
    out->schema.name = "";
    out->schema.flags = NULLABLE;
    out->schema.release = release_schema;
    out->array.length = rows;
    out->array.null_count = pack(valid, rows, bits);
    out->array.n_buffers = 3;
    out->array.buffers = held->buffers;
    out->array.release = release_array;
    out->array.private_data = held;
    return out;
}

void *tn_export_schema(void *export) { return &((exported *)export)->schema; }

void *tn_export_array(void *export) { return &((exported *)export)->array; }

/* Frees what nobody has taken over. */
void tn_export_free(void *export) {
    exported *out = export;
    if (!out) return;
    if (out->array.release) out->array.release(&out->array);
    free(out);
}
