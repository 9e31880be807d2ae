package handover;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** When the restore of each partition began and ended, and how many records it read; called by several threads. */
final class Restored implements StateRestoreListener {
    private static final double NANOS = 1e9;

    private final Map<Integer, Double> began = new ConcurrentHashMap<>();
    private final List<Part> ended = new ArrayList<>();
    private final CountDownLatch left;

    Restored(int partitions) {
        left = new CountDownLatch(partitions);
    }

    /** Seconds on the machine's monotonic clock. */
    static double nowS() {
        return System.nanoTime() / NANOS;
    }

    void await() throws InterruptedException {
        left.await();
    }

    synchronized List<Part> partitions() {
        return List.copyOf(ended);
    }

    @Override
    public void onRestoreStart(TopicPartition at, String store, long from, long to) {
        began.put(at.partition(), nowS());
    }

    @Override
    public void onBatchRestored(TopicPartition at, String store, long end, long records) {}

    @Override
    public void onRestoreEnd(TopicPartition at, String store, long records) {
        double endedS = nowS();
        synchronized (this) {
            ended.add(new Part(at.partition(), began.get(at.partition()), endedS, records));
        }
        left.countDown();
    }

    /** The restore of a partition. */
    public record Part(int partition, double began_s, double ended_s, long records) {}
}
