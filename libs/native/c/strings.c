/* The byte strings of an Arrow column, where they lie: views of 16 bytes, which hold a short string themselves, and of
 * a long one its length, its first four bytes, and where in which buffer it is
 * (https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout). */
#include "arrow.h"
#include "towpath_native.h"

#include <stdlib.h>
#include <string.h>

enum { INLINE_BYTES = 12 };

typedef struct {
    int32_t size;
    union {
        uint8_t bytes[INLINE_BYTES];
        struct {
            uint8_t prefix[4];
            int32_t buffer;
            int32_t offset;
        } at;
    } text;
} view;

static int is_views(struct ArrowArrayStream *stream) {
    struct ArrowSchema schema;
    if (stream->get_schema(stream, &schema)) return 0;
    int known = !strcmp(schema.format, "vu") || !strcmp(schema.format, "vz");
    if (schema.release) schema.release(&schema);
    return known;
}

static int grow(tn_strings *strings, int64_t more) {
    int64_t room = strings->length + more + 1;
    uint64_t *address = realloc(strings->address, room * sizeof *address);
    if (address) strings->address = address;
    int64_t *size = realloc(strings->size, room * sizeof *size);
    if (size) strings->size = size;
    uint8_t *absent = realloc(strings->absent, room);
    if (absent) strings->absent = absent;
    struct ArrowArray *chunks = realloc(strings->chunks, (strings->chunk_count + 1) * sizeof *chunks);
    if (chunks) strings->chunks = chunks;
    return address && size && absent && chunks;
}

static void look_at(tn_strings *strings, const struct ArrowArray *chunk) {
    const uint8_t *valid = chunk->buffers[0];
    const view *views = chunk->buffers[1];
    for (int64_t row = 0; row < chunk->length; row++) {
        int64_t item = row + chunk->offset, place = strings->length + row;
        const view *each = &views[item];
        int there = !valid || valid[item / 8] >> item % 8 & 1;
        strings->absent[place] = !there;
        strings->size[place] = there ? each->size : 0;
        const uint8_t *bytes = each->size <= INLINE_BYTES || !there
                                   ? each->text.bytes
                                   : (const uint8_t *)chunk->buffers[2 + each->text.at.buffer] + each->text.at.offset;
        strings->address[place] = (uint64_t)(uintptr_t)bytes;
    }
    strings->length += chunk->length;
}

/* Takes the strings of a stream of views, and the stream with them. NULL: no such stream, which stays as it is, or out
 * of memory. */
tn_strings *tn_strings_take(void *from) {
    struct ArrowArrayStream *stream = from;
    tn_strings *strings = is_views(stream) ? calloc(1, sizeof *strings) : NULL;
    struct ArrowArray chunk;
    while (strings) {
        if (stream->get_next(stream, &chunk)) {
            tn_strings_free(strings);
            return NULL;
        }
        if (!chunk.release) break;
        if (!grow(strings, chunk.length)) {
            chunk.release(&chunk);
            tn_strings_free(strings);
            return NULL;
        }
        look_at(strings, &chunk);
        ((struct ArrowArray *)strings->chunks)[strings->chunk_count++] = chunk;
    }
    return strings;
}

void tn_strings_free(tn_strings *strings) {
    if (!strings) return;
    struct ArrowArray *chunks = strings->chunks;
    for (int32_t index = 0; index < strings->chunk_count; index++) chunks[index].release(&chunks[index]);
    free(chunks);
    free(strings->address);
    free(strings->size);
    free(strings->absent);
    free(strings);
}
