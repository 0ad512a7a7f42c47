package hybridbackfill.kafka;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BinaryOperator;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka source, with micro-batches that end where the driver says.
 *
 * <p>All is Spark's own but the end of a micro-batch: the offsets in the checkpoint, what tasks read,
 * the metrics. So one checkpoint can be read with this source and without it, in turns.
 */
public final class LimitedKafka implements TableProvider {
  /** Option: the id with which the function was registered that says the ends. */
  public static final String ID = "hybridlimit";

  private static final Map<String, BinaryOperator<String>> LIMITS = new ConcurrentHashMap<>();

  private final TableProvider kafka;

  public LimitedKafka() throws ReflectiveOperationException {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    Class<?> found = Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider", true, loader);
    kafka = (TableProvider) found.getDeclaredConstructor().newInstance();
  }

  /**
   * Registers the function that says where micro-batches end, in place of an earlier one of that id.
   *
   * @param limit called before each micro-batch with the offsets from which it reads, and those at
   *     which the log ends now, both as Spark's JSON; returns the offsets at which it ends.
   */
  public static void register(String id, BinaryOperator<String> limit) {
    LIMITS.put(id, limit);
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return kafka.inferSchema(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    Table table = kafka.getTable(schema, partitioning, properties);
    String id = new CaseInsensitiveStringMap(properties).get(ID);
    return new LimitedTable((SupportsRead) table, LIMITS.get(id));
  }

  // No records: their generated methods would ask the function for its hash, which is in Python.
  private static final class LimitedTable implements SupportsRead {
    private final SupportsRead table;
    private final BinaryOperator<String> limit;

    LimitedTable(SupportsRead table, BinaryOperator<String> limit) {
      this.table = table;
      this.limit = limit;
    }

    @Override
    public String name() {
      return table.name();
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return table.schema();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      ScanBuilder builder = table.newScanBuilder(options);
      return () -> new LimitedScan(builder.build(), limit);
    }
  }

  private static final class LimitedScan implements Scan {
    private final Scan scan;
    private final BinaryOperator<String> limit;

    LimitedScan(Scan scan, BinaryOperator<String> limit) {
      this.scan = scan;
      this.limit = limit;
    }

    @Override
    public StructType readSchema() {
      return scan.readSchema();
    }

    @Override
    public String description() {
      return scan.description();
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new LimitedStream(scan.toMicroBatchStream(checkpointLocation), limit);
    }
  }
}
