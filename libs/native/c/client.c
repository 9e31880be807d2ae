#include "client.h"
#include "towpath_native.h"

#include <dlfcn.h>

static struct client loaded;

const struct client *client(void) { return &loaded; }

/* Looks the functions up in an extension that is linked to librdkafka, without loading anything anew.
 * Gives the name of the first that is not there, or NULL. */
const char *tn_load(const char *extension) {
    void *library = dlopen(extension, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return "the extension itself";
#define LOOK_UP(member) \
    if (!(*(void **)&loaded.member = dlsym(library, "rd_kafka_" #member))) return "rd_kafka_" #member
    LOOK_UP(queue_get_consumer);
    LOOK_UP(queue_get_partition);
    LOOK_UP(queue_new);
    LOOK_UP(queue_forward);
    LOOK_UP(queue_destroy);
    LOOK_UP(queue_poll);
    LOOK_UP(event_type);
    LOOK_UP(event_error);
    LOOK_UP(event_error_string);
    LOOK_UP(event_topic_partition);
    LOOK_UP(topic_partition_destroy);
    LOOK_UP(event_destroy);
    LOOK_UP(consume_batch_queue);
    LOOK_UP(message_destroy);
    LOOK_UP(message_errstr);
    LOOK_UP(message_timestamp);
    LOOK_UP(message_headers);
    LOOK_UP(header_get_all);
    LOOK_UP(topic_name);
    LOOK_UP(topic_new);
    LOOK_UP(topic_destroy);
    LOOK_UP(produce_batch);
    LOOK_UP(name);
#undef LOOK_UP
    return NULL;
}

const char *tn_client_name(void *handle) { return loaded.name(handle); }
