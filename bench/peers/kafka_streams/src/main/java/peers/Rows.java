package peers;

import java.math.BigDecimal;

/** What the jobs read and write; each has only the fields that its job needs, the others are skipped by the reader. */
final class Rows {
    private Rows() {}

    /** What the count reads. */
    public static final class Keyed {
        public String type;
        public long auction;
    }

    /** What the stateless jobs read. */
    public static final class Bid {
        public String type;
        public long auction;
        public long bidder;
        public long price;
        public long date_time;
        public String extra;
    }

    /** What the windowed count reads. */
    public static final class Timed {
        public String type;
        public long auction;
        public long date_time;
    }

    /** What Q3 reads: persons and auctions. */
    public static final class Listing {
        public String type;
        public long id;
        public long seller;
        public long category;
        public String name;
        public String city;
        public String state;
    }

    /** What Q3 keeps of a person. */
    public record Seller(String name, String city, String state) {}

    /** What Q3 keeps of an auction. */
    public record Listed(long id, long seller) {}

    /** What Q2 reads. */
    public static final class Priced {
        public String type;
        public long auction;
        public long price;
    }

    /** What Q22 reads. */
    public static final class Visited {
        public String type;
        public long auction;
        public long bidder;
        public long price;
        public String channel;
        public String url;
    }

    /** Output of the count. */
    public record Count(long auction, long count) {}

    /** Output of the windowed count. */
    public record WindowCount(long auction, long window_start, long count) {}

    /** Output of Q3. */
    public record Suggested(String name, String city, String state, long id) {}

    /** Output of Q0. */
    public record Passed(long auction, long bidder, long price, long date_time, String extra) {}

    /** Output of Q1. */
    public record Converted(long auction, long bidder, BigDecimal price, long date_time, String extra) {}

    /** Output of Q2. */
    public record Selected(long auction, long price) {}

    /** Output of Q22. */
    public record Directories(
            long auction, long bidder, long price, String channel, String dir1, String dir2, String dir3) {}
}
