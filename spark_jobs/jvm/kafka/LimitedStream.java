package hybridbackfill.kafka;

import java.util.Map;
import java.util.Optional;
import java.util.function.BinaryOperator;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;

/** Spark's stream of a Kafka source, with micro-batches that end where a function says. */
final class LimitedStream
    implements MicroBatchStream, SupportsAdmissionControl, ReportsSourceMetrics {
  private final MicroBatchStream kafka;
  private final BinaryOperator<String> limit;

  LimitedStream(MicroBatchStream kafka, BinaryOperator<String> limit) {
    this.kafka = kafka;
    this.limit = limit;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit ignored) {
    Offset latest =
        ((SupportsAdmissionControl) kafka).latestOffset(start, ReadLimit.allAvailable());
    return latest == null ? null : deserializeOffset(limit.apply(start.json(), latest.json()));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called instead");
  }

  @Override
  public Offset reportLatestOffset() {
    return ((SupportsAdmissionControl) kafka).reportLatestOffset();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    return ((ReportsSourceMetrics) kafka).metrics(latestConsumed);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return kafka.planInputPartitions(start, end);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return kafka.createReaderFactory();
  }

  @Override
  public Offset initialOffset() {
    return kafka.initialOffset();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return kafka.deserializeOffset(json);
  }

  @Override
  public void commit(Offset end) {
    kafka.commit(end);
  }

  @Override
  public void stop() {
    kafka.stop();
  }

  @Override
  public String toString() {
    return kafka.toString();
  }
}
