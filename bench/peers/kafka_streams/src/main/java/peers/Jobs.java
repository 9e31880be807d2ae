package peers;

import java.math.BigDecimal;
import java.time.Duration;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;

/** The jobs as topologies. */
final class Jobs {
    private static final BigDecimal EURO_PER_DOLLAR = new BigDecimal("0.908");
    private static final int FIRST_DIRECTORY = 3;
    private static final byte[] NOTHING = new byte[0];
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofHours(12);
    private static final long CATEGORY = 10;
    private static final Set<String> STATES = Set.of("OR", "ID", "CA");

    private Jobs() {}

    static Topology topology(String job, boolean keyed, String source, String sink, Properties properties) {
        StreamsBuilder builder = new StreamsBuilder();
        switch (job) {
            case "q0" -> read(builder, source, Rows.Bid.class)
                    .filter((key, bid) -> isBid(bid.type))
                    .mapValues(bid -> new Rows.Passed(bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra))
                    .to(sink, Produced.with(Serdes.String(), Json.serde(Rows.Passed.class)));
            case "q1" -> read(builder, source, Rows.Bid.class)
                    .filter((key, bid) -> isBid(bid.type))
                    .mapValues(Jobs::converted)
                    .to(sink, Produced.with(Serdes.String(), Json.serde(Rows.Converted.class)));
            case "q2" -> read(builder, source, Rows.Priced.class)
                    .filter((key, bid) -> isBid(bid.type) && bid.auction % 123 == 0)
                    .mapValues(bid -> new Rows.Selected(bid.auction, bid.price))
                    .to(sink, Produced.with(Serdes.String(), Json.serde(Rows.Selected.class)));
            case "q22" -> read(builder, source, Rows.Visited.class)
                    .filter((key, bid) -> isBid(bid.type))
                    .mapValues(Jobs::directories)
                    .to(sink, Produced.with(Serdes.String(), Json.serde(Rows.Directories.class)));
            case "count" -> count(read(builder, source, Rows.Keyed.class), keyed)
                    .to(sink, Produced.with(Serdes.String(), Json.serde(Rows.Count.class)));
            case "tumbling" -> tumbling(readTimed(builder, source))
                    .to(sink, Produced.with(Serdes.String(), Json.serde(Rows.WindowCount.class)));
            case "q3" -> suggested(read(builder, source, Rows.Listing.class))
                    .to(sink, Produced.with(Serdes.String(), Json.serde(Rows.Suggested.class)));
            default -> throw new IllegalArgumentException("there is no job " + job);
        }
        return builder.build(properties);
    }

    private static <T> KStream<String, T> read(StreamsBuilder builder, String source, Class<T> type) {
        return builder.stream(source, Consumed.with(Serdes.String(), Json.serde(type)));
    }

    private static KStream<String, Rows.Timed> readTimed(StreamsBuilder builder, String source) {
        Serde<Rows.Timed> rows = Json.serde(Rows.Timed.class);
        return builder.stream(
                source,
                Consumed.with(Serdes.String(), rows)
                        .withTimestampExtractor((record, before) -> ((Rows.Timed) record.value()).date_time));
    }

    /**
     * Updates, not final results: those need a grace, and what one thread reads ahead of another would be late. The
     * grace here is longer than the data.
     */
    private static KStream<String, Rows.WindowCount> tumbling(KStream<String, Rows.Timed> events) {
        return events.filter((key, bid) -> isBid(bid.type))
                .map((key, bid) -> KeyValue.pair(Long.toString(bid.auction), NOTHING))
                .groupByKey(Grouped.with("by-auction", Serdes.String(), Serdes.ByteArray()))
                .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
                .count(Materialized.as("counts"))
                .toStream()
                .map((window, count) -> KeyValue.pair(
                        window.key(),
                        new Rows.WindowCount(
                                Long.parseLong(window.key()), window.window().start(), count)));
    }

    /** Two tables joined by a foreign key: what its documentation has for many auctions of one seller. */
    private static KStream<String, Rows.Suggested> suggested(KStream<String, Rows.Listing> events) {
        KTable<String, Rows.Seller> sellers = events.filter(
                        (key, row) -> "person".equals(row.type) && STATES.contains(row.state))
                .map((key, row) ->
                        KeyValue.pair(Long.toString(row.id), new Rows.Seller(row.name, row.city, row.state)))
                .toTable(Materialized.with(Serdes.String(), Json.serde(Rows.Seller.class)));
        KTable<String, Rows.Listed> listed = events.filter(
                        (key, row) -> "auction".equals(row.type) && row.category == CATEGORY)
                .map((key, row) -> KeyValue.pair(Long.toString(row.id), new Rows.Listed(row.id, row.seller)))
                .toTable(Materialized.with(Serdes.String(), Json.serde(Rows.Listed.class)));
        return listed.join(
                        sellers,
                        auction -> Long.toString(auction.seller()),
                        (auction, seller) ->
                                new Rows.Suggested(seller.name(), seller.city(), seller.state(), auction.id()),
                        Materialized.with(Serdes.String(), Json.serde(Rows.Suggested.class)))
                .toStream();
    }

    private static KStream<String, Rows.Count> count(KStream<String, Rows.Keyed> events, boolean keyed) {
        KStream<String, Rows.Keyed> bids = events.filter((key, bid) -> isBid(bid.type));
        KGroupedStream<String, ?> grouped = keyed ? bids.groupByKey() : shuffled(bids);
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> store =
                Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long());
        return grouped.count(store)
                .toStream()
                .mapValues((key, count) -> new Rows.Count(Long.parseLong(key), count));
    }

    /** The repartition topic carries keys alone: a count needs nothing else. */
    private static KGroupedStream<String, byte[]> shuffled(KStream<String, Rows.Keyed> bids) {
        Serde<byte[]> bytes = Serdes.ByteArray();
        return bids.map((key, bid) -> KeyValue.pair(Long.toString(bid.auction), NOTHING))
                .groupByKey(Grouped.with("by-auction", Serdes.String(), bytes));
    }

    private static boolean isBid(String type) {
        return "bid".equals(type);
    }

    private static Rows.Converted converted(Rows.Bid bid) {
        BigDecimal price = BigDecimal.valueOf(bid.price).multiply(EURO_PER_DOLLAR);
        return new Rows.Converted(bid.auction, bid.bidder, price, bid.date_time, bid.extra);
    }

    private static Rows.Directories directories(Rows.Visited bid) {
        String[] parts = bid.url.split("/");
        return new Rows.Directories(
                bid.auction, bid.bidder, bid.price, bid.channel, part(parts, 0), part(parts, 1), part(parts, 2));
    }

    private static String part(String[] parts, int number) {
        return parts.length > FIRST_DIRECTORY + number ? parts[FIRST_DIRECTORY + number] : null;
    }
}
