package handover;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts per key with a state of fixed length. Runs until so many inputs are counted and so many partitions restored,
 * ends cleanly, and prints what it saw of the restore; its only argument is the file that describes the run.
 */
public final class Restore {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    /** Leaves the group, so that the next start need not wait until the session of this one has ended. */
    private static final CloseOptions CLOSE = CloseOptions.timeout(LIMIT)
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);

    private static final int DIGITS = 12;

    private Restore() {}

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode run = json.readTree(Path.of(arguments[0]).toFile());
        CountDownLatch counted = new CountDownLatch(run.get("inputs").asInt());
        CountDownLatch running = new CountDownLatch(1);
        Restored restored = new Restored(run.get("restores").asInt());
        KafkaStreams streams = new KafkaStreams(topology(run, counted), properties(run));
        streams.setGlobalStateRestoreListener(restored);
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        double startedS = Restored.nowS();
        streams.start();
        running.await();
        double runningS = Restored.nowS();
        restored.await();
        counted.await();
        if (!streams.close(CLOSE)) {
            throw new IllegalStateException("it did not end within " + LIMIT);
        }
        System.out.println(json.writeValueAsString(
                Map.of("started_s", startedS, "running_s", runningS, "partitions", restored.partitions())));
    }

    private static Topology topology(JsonNode run, CountDownLatch counted) {
        String padding = "x".repeat(run.get("value_bytes").asInt() - DIGITS);
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> store =
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(run.get("store").asText())
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.String());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(run.get("source").asText(), Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .peek((key, value) -> counted.countDown())
                .groupByKey()
                .aggregate(() -> padded(0, padding), (key, value, count) -> padded(count(count) + 1, padding), store)
                .toStream()
                .mapValues(Restore::count)
                .to(run.get("sink").asText(), Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    private static long count(String value) {
        return Long.parseLong(value.substring(0, DIGITS));
    }

    private static String padded(long count, String padding) {
        String digits = Long.toString(count);
        return "0".repeat(DIGITS - digits.length()) + digits + padding;
    }

    private static Properties properties(JsonNode run) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, run.get("app").asText());
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, run.get("bootstrap").asText());
        properties.put(StreamsConfig.STATE_DIR_CONFIG, run.get("state_dir").asText());
        run.get("settings").fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        return properties;
    }
}
