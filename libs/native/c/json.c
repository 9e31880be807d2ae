/* Flat JSON objects → columns, for records that are plain; every other record is left to a complete decoder.
 *
 * Plain: one object; names and needed strings of printable ASCII without escapes; integers of at most 18 digits; other
 * numbers of at most 15 digits and an exponent within ±22, for which a multiplication or division of two exact doubles
 * is exact (Clinger, "How to read floating point numbers accurately", 1990); no needed field twice; the types asked
 * for. What is skipped is checked, too. So a record that is taken here is one that a strict decoder takes, with the
 * same values, and nothing has to be said here about what is wrong with another.
 *
 * The names of a topic's records mostly come in one order: the k-th name is compared with the k-th one of the record
 * before, first. */
#include "towpath_native.h"

#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { MAX_FIELDS = 64, MAX_NAMES = 64, MAX_NAME_BYTES = 48, MAX_DEPTH = 32 };

typedef struct {
    uint8_t bytes[MAX_NAME_BYTES]; /* with its closing quote */
    int32_t size;                  /* 0: nothing known of this place */
    int32_t field;                 /* -1: not needed */
} known_name;

struct tn_decoder {
    int32_t count;
    tn_field fields[MAX_FIELDS];
    known_name names[MAX_NAMES];
};

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} text;

static const uint64_t TENS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

tn_decoder *tn_decoder_new(int32_t count, const tn_field *fields) {
    if (count < 0 || count > MAX_FIELDS) return NULL;
    tn_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) return NULL;
    decoder->count = count;
    for (int32_t index = 0; index < count; index++) {
        decoder->fields[index] = fields[index];
        char *name = malloc(fields[index].size + 1);
        if (!name) {
            decoder->count = index;
            tn_decoder_free(decoder);
            return NULL;
        }
        memcpy(name, fields[index].name, fields[index].size);
        decoder->fields[index].name = name;
    }
    return decoder;
}

void tn_decoder_free(tn_decoder *decoder) {
    if (!decoder) return;
    for (int32_t index = 0; index < decoder->count; index++) free((char *)decoder->fields[index].name);
    free(decoder);
}

static inline void skip_blanks(text *in) {
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t')) in->at++;
}

static inline int next_is(text *in, uint8_t expected) {
    if (in->at >= in->end || *in->at != expected) return 0;
    in->at++;
    return 1;
}

/* The first byte from here on that is not printable ASCII, a quote or a backslash; the end if there is none. */
static inline const uint8_t *plain_end(const uint8_t *at, const uint8_t *end) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), blank = _mm_set1_epi8(' ');
    for (; end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        /* signed: bytes from 0x80 on are negative */
        __m128i odd = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                                   _mm_cmplt_epi8(bytes, blank));
        int mask = _mm_movemask_epi8(odd);
        if (mask) return at + __builtin_ctz(mask);
    }
#endif
    while (at < end && *at >= ' ' && *at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}

/* A string behind its opening quote; it must be plain. */
static inline int plain_string(text *in, const uint8_t **begin, int64_t *size) {
    const uint8_t *end = plain_end(in->at, in->end);
    *begin = in->at;
    *size = end - in->at;
    in->at = end;
    return next_is(in, '"');
}

/* A string behind its opening quote that nobody needs. */
static int skip_string(text *in) {
    for (;;) {
        in->at = plain_end(in->at, in->end);
        if (in->at >= in->end || *in->at < ' ') return 0;
        if (*in->at == '"') {
            in->at++;
            return 1;
        }
        if (*in->at != '\\') return 0;
        if (in->end - in->at < 2 || !memchr("\"\\/bfnrt", in->at[1], 8)) return 0;
        in->at += 2;
    }
}

typedef struct {
    int negative;
    uint64_t mantissa;
    int digits;
    int exponent;
    int integer; /* no point and no exponent */
} number;

/* How many digits there are from here on; 16 stands for 16 and more where 16 bytes are there to be looked at. */
static inline int digits_at(const uint8_t *at, const uint8_t *end) {
#ifdef __SSE2__
    if (end - at >= 16) {
        __m128i bytes = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)at), _mm_set1_epi8('0'));
        __m128i digits = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(9)), bytes);
        return __builtin_ctz(~_mm_movemask_epi8(digits));
    }
#endif
    int count = 0;
    while (at + count < end && (uint8_t)(at[count] - '0') < 10 && count < 19) count++;
    return count;
}

/* Up to eight digits as a number, without a loop (Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019,
 * section 3.3); eight bytes from here on can be read. */
static inline uint64_t up_to_eight(const uint8_t *at, int count) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, at, 8);
    word = count ? (word & 0x0F0F0F0F0F0F0F0F) << (64 - 8 * count) : 0;
    word = word * 2561 >> 8;
    word = (word & 0x00FF00FF00FF00FF) * 6553601 >> 16;
    return (word & 0x0000FFFF0000FFFF) * 42949672960001 >> 32;
#else
    uint64_t value = 0;
    for (int index = 0; index < count; index++) value = value * 10 + (at[index] - '0');
    return value;
#endif
}

/* A number of at most 18 digits. */
static inline int read_number(text *in, number *out) {
    out->negative = next_is(in, '-');
    const uint8_t *at = in->at, *end = in->end, *begin = at;
    uint64_t value = 0;
    int count = digits_at(at, end);
    if (count < 16 && end - at >= 16) {
        value = count <= 8 ? up_to_eight(at, count) : up_to_eight(at, 8) * TENS[count - 8] + up_to_eight(at + 8, count - 8);
        at += count;
    } else {
        while (at < end && (uint8_t)(*at - '0') < 10 && at - begin < 19) value = value * 10 + (*at++ - '0');
    }
    out->digits = (int)(at - begin);
    if (!out->digits || out->digits > 18 || (*begin == '0' && out->digits > 1)) return 0;
    out->mantissa = value;
    out->exponent = 0;
    out->integer = 1;
    if (at < end && (*at == '.' || (*at | 0x20) == 'e')) {
        out->integer = 0;
        if (*at == '.') {
            const uint8_t *point = ++at;
            while (at < end && (uint8_t)(*at - '0') < 10 && out->digits < 19) {
                value = value * 10 + (*at++ - '0');
                out->digits++;
            }
            if (at == point || out->digits > 18) return 0;
            out->exponent = (int)(point - at);
            out->mantissa = value;
        }
        if (at < end && (*at | 0x20) == 'e') {
            at++;
            int minus = at < end && *at == '-';
            if (at < end && (*at == '-' || *at == '+')) at++;
            const uint8_t *power = at;
            int exponent = 0;
            while (at < end && (uint8_t)(*at - '0') < 10 && at - power < 4) exponent = exponent * 10 + (*at++ - '0');
            if (at == power || at - power > 3) return 0;
            out->exponent += minus ? -exponent : exponent;
        }
    }
    in->at = at;
    return 1;
}

static inline int literal(text *in, const char *word, int64_t size) {
    if (in->end - in->at < size || memcmp(in->at, word, size)) return 0;
    in->at += size;
    return 1;
}

static int skip_value(text *in, int depth);

static int skip_members(text *in, uint8_t close, int depth) {
    if (depth >= MAX_DEPTH) return 0;
    skip_blanks(in);
    if (next_is(in, close)) return 1;
    for (;;) {
        skip_blanks(in);
        if (close == '}') {
            if (!next_is(in, '"') || !skip_string(in)) return 0;
            skip_blanks(in);
            if (!next_is(in, ':')) return 0;
            skip_blanks(in);
        }
        if (!skip_value(in, depth + 1)) return 0;
        skip_blanks(in);
        if (next_is(in, close)) return 1;
        if (!next_is(in, ',')) return 0;
    }
}

static int skip_value(text *in, int depth) {
    if (in->at >= in->end) return 0;
    number ignored;
    switch (*in->at) {
        case '"': in->at++; return skip_string(in);
        case '{': in->at++; return skip_members(in, '}', depth);
        case '[': in->at++; return skip_members(in, ']', depth);
        case 't': return literal(in, "true", 4);
        case 'f': return literal(in, "false", 5);
        case 'n': return literal(in, "null", 4);
        default: return read_number(in, &ignored);
    }
}

static int read_integer(text *in, const tn_field *field, int64_t row) {
    number found;
    if (!read_number(in, &found) || !found.integer) return 0;
    int64_t value = found.negative ? -(int64_t)found.mantissa : (int64_t)found.mantissa;
    if (value < field->least || value > field->most) return 0;
    ((int64_t *)field->values)[row] = value;
    return 1;
}

static int read_float(text *in, const tn_field *field, int64_t row) {
    number found;
    if (!read_number(in, &found) || found.digits > 15 || found.exponent < -22 || found.exponent > 22) return 0;
    double value = (double)found.mantissa;
    value = found.exponent < 0 ? value / POWERS[-found.exponent] : value * POWERS[found.exponent];
    int minus_nothing = found.integer && !found.mantissa; /* an integer's zero has no sign, unlike that of -0.0 */
    ((double *)field->values)[row] = found.negative && !minus_nothing ? -value : value;
    return 1;
}

static int read_boolean(text *in, const tn_field *field, int64_t row) {
    int yes = literal(in, "true", 4);
    if (!yes && !literal(in, "false", 5)) return 0;
    ((uint8_t *)field->values)[row] = (uint8_t)yes;
    return 1;
}

/* The text goes behind the column's text so far; there is room, since a column's text is part of all records' text. */
static int read_text(text *in, tn_field *field, int64_t row) {
    const uint8_t *begin;
    int64_t size;
    if (!next_is(in, '"') || !plain_string(in, &begin, &size)) return 0;
    int64_t used = field->begin[row];
    memcpy((uint8_t *)field->values + used, begin, size);
    field->begin[row + 1] = used + size;
    return 1;
}

static int read_value(text *in, tn_field *field, int64_t row) {
    if (in->at < in->end && *in->at == 'n') return literal(in, "null", 4);
    int good = 0;
    switch (field->kind) {
        case TN_INTEGER: good = read_integer(in, field, row); break;
        case TN_FLOAT: good = read_float(in, field, row); break;
        case TN_BOOLEAN: good = read_boolean(in, field, row); break;
        case TN_TEXT: good = read_text(in, field, row); break;
    }
    field->valid[row] = (uint8_t)good;
    return good;
}

static inline int same(const uint8_t *known, const uint8_t *bytes, int64_t size) {
#ifdef __SSE2__
    if (size <= 16) {
        __m128i equal = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)known), _mm_loadu_si128((const __m128i *)bytes));
        uint32_t wanted = ((uint32_t)1 << size) - 1;
        return (_mm_movemask_epi8(equal) & wanted) == wanted;
    }
#endif
    return !memcmp(known, bytes, size);
}

/* Which field a name means, -1 for none. */
static int32_t field_of(tn_decoder *decoder, known_name *known, const uint8_t *name, int64_t size) {
    int32_t field = -1;
    for (int32_t index = 0; index < decoder->count; index++)
        if (decoder->fields[index].size == size && !memcmp(decoder->fields[index].name, name, size)) {
            field = index;
            break;
        }
    if (known && size < MAX_NAME_BYTES) {
        memcpy(known->bytes, name, size + 1);
        known->size = (int32_t)size + 1;
        known->field = field;
    }
    return field;
}

/* A member's name behind its opening quote; the one known of this place is tried first. -2: not plain. */
static inline int32_t read_name(tn_decoder *decoder, text *in, int32_t place) {
    known_name *known = place < MAX_NAMES ? &decoder->names[place] : NULL;
    if (known && known->size && in->end - in->at >= (known->size <= 16 ? 16 : known->size) &&
        same(known->bytes, in->at, known->size)) {
        in->at += known->size;
        return known->field;
    }
    const uint8_t *name;
    int64_t size;
    return plain_string(in, &name, &size) ? field_of(decoder, known, name, size) : -2;
}

static int read_object(tn_decoder *decoder, text *in, int64_t row) {
    uint64_t seen = 0;
    skip_blanks(in);
    if (!next_is(in, '{')) return 0;
    skip_blanks(in);
    int empty = next_is(in, '}');
    for (int32_t place = 0; !empty; place++) {
        skip_blanks(in);
        if (!next_is(in, '"')) return 0;
        int32_t field = read_name(decoder, in, place);
        if (field == -2) return 0;
        skip_blanks(in);
        if (!next_is(in, ':')) return 0;
        skip_blanks(in);
        if (field < 0) {
            if (!skip_value(in, 0)) return 0;
        } else {
            if (seen >> field & 1) return 0;
            seen |= (uint64_t)1 << field;
            if (!read_value(in, &decoder->fields[field], row)) return 0;
        }
        skip_blanks(in);
        if (next_is(in, '}')) break;
        if (!next_is(in, ',')) return 0;
    }
    skip_blanks(in);
    return in->at == in->end;
}

/* Where the columns of the next call go: as many rows as it has records, and for texts as many bytes. */
void tn_decoder_column(tn_decoder *decoder, int32_t index, void *values, int64_t *begin, uint8_t *valid) {
    tn_field *field = &decoder->fields[index];
    field->values = values;
    field->begin = begin;
    field->valid = valid;
    if (begin) begin[0] = 0;
}

/* Decodes records; odd[i] is 1 where record i is not plain, and its row is null. Gives the number of those. */
int64_t tn_decode(tn_decoder *decoder, int64_t records, const uint8_t *data, const int64_t *begin,
                  const int64_t *end, const uint8_t *absent, uint8_t *odd) {
    int64_t left = 0;
    for (int64_t row = 0; row < records; row++) {
        for (int32_t index = 0; index < decoder->count; index++) {
            tn_field *field = &decoder->fields[index];
            field->valid[row] = 0;
            if (field->begin) field->begin[row + 1] = field->begin[row];
        }
        text in = {data + begin[row], data + end[row]};
        odd[row] = absent[row] & 1 || !read_object(decoder, &in, row);
        if (!odd[row]) continue;
        left++;
        for (int32_t index = 0; index < decoder->count; index++) {
            tn_field *field = &decoder->fields[index];
            field->valid[row] = 0;
            if (field->begin) field->begin[row + 1] = field->begin[row];
        }
    }
    return left;
}
