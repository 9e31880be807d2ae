package handover;

import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.Options;

/** What the documentation of Kafka Streams advises where restore time matters: larger memtables, later compaction. */
public final class LargeBuffers implements RocksDBConfigSetter {
    private static final long MEMTABLE_BYTES = 64L << 20;
    private static final int COMPACTED_FILES = 10;

    @Override
    public void setConfig(String store, Options options, Map<String, Object> configs) {
        options.setWriteBufferSize(MEMTABLE_BYTES);
        options.setLevel0FileNumCompactionTrigger(COMPACTED_FILES);
    }

    @Override
    public void close(String store, Options options) {}
}
