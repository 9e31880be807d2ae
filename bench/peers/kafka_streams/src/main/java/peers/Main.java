package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;

/** Runs one job until SIGTERM; its only argument is the file that describes the run. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode run = new ObjectMapper().readTree(Path.of(arguments[0]).toFile());
        Properties properties = properties(run);
        Topology topology = Jobs.topology(
                run.get("job").asText(),
                run.get("keyed").asBoolean(),
                run.get("source").asText(),
                run.get("sink").asText(),
                properties);
        KafkaStreams streams = new KafkaStreams(topology, properties);
        CountDownLatch stop = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(java.time.Duration.ofSeconds(10));
            stop.countDown();
        }));
        streams.start();
        stop.await();
    }

    private static Properties properties(JsonNode run) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, run.get("app").asText());
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, run.get("bootstrap").asText());
        properties.put(StreamsConfig.STATE_DIR_CONFIG, run.get("state_dir").asText());
        properties.put("consumer.auto.offset.reset", "earliest");
        run.get("settings").fields().forEachRemaining(each -> {
            if (!each.getKey().startsWith("jvm.")) {
                properties.put(each.getKey(), each.getValue().asText());
            }
        });
        return properties;
    }
}
