package beside;

import java.io.IOException;
import java.io.Serializable;
import java.util.Map;
import org.apache.flink.api.common.serialization.BulkWriter;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.DelegatingPositionOutputStream;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.PositionOutputStream;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.io.api.RecordConsumer;
import org.apache.parquet.schema.MessageTypeParser;

/** Parquet files compressed by Snappy, by Parquet's own writer with its default settings. */
final class ParquetTable<T> implements BulkWriter.Factory<T> {
    /** Writes the columns of a row, in the order of the schema. */
    interface Columns<T> extends Serializable {
        void write(T row, RowWriter out);
    }

    private final String schema;
    private final Columns<T> columns;

    ParquetTable(String schema, Columns<T> columns) {
        this.schema = schema;
        this.columns = columns;
    }

    static ParquetTable<Event> events() {
        return new ParquetTable<>(
                "message event { required int64 id; required int64 at (TIMESTAMP(MICROS,true));"
                        + " required binary user (STRING); required double value; }",
                (event, out) -> {
                    out.add("id", event.id);
                    out.add("at", event.at);
                    out.add("user", event.user);
                    out.add("value", event.value);
                });
    }

    static ParquetTable<HourlyCount> counts() {
        return new ParquetTable<>(
                "message count { required int64 hour (TIMESTAMP(MICROS,true));"
                        + " required binary user (STRING); required int64 n;"
                        + " required double total; }",
                (count, out) -> {
                    out.add("hour", count.hour);
                    out.add("user", count.user);
                    out.add("n", count.n);
                    out.add("total", count.total);
                });
    }

    @Override
    public BulkWriter<T> create(FSDataOutputStream stream) throws IOException {
        ParquetWriter<T> writer =
                new Builder(new FlinkOutput(stream))
                        .withCompressionCodec(CompressionCodecName.SNAPPY)
                        .build();
        return new BulkWriter<>() {
            @Override
            public void addElement(T row) throws IOException {
                writer.write(row);
            }

            @Override
            public void flush() {}

            @Override
            public void finish() throws IOException {
                writer.close();
            }
        };
    }

    /** Writes one column after the other of a row. */
    static final class RowWriter {
        private final RecordConsumer consumer;
        private int column;

        private RowWriter(RecordConsumer consumer) {
            this.consumer = consumer;
        }

        void add(String name, long value) {
            consumer.startField(name, column);
            consumer.addLong(value);
            consumer.endField(name, column++);
        }

        void add(String name, double value) {
            consumer.startField(name, column);
            consumer.addDouble(value);
            consumer.endField(name, column++);
        }

        void add(String name, String value) {
            consumer.startField(name, column);
            consumer.addBinary(Binary.fromString(value));
            consumer.endField(name, column++);
        }
    }

    private final class Builder extends ParquetWriter.Builder<T, Builder> {
        Builder(OutputFile file) {
            super(file);
        }

        @Override
        protected Builder self() {
            return this;
        }

        @Override
        protected WriteSupport<T> getWriteSupport(Configuration conf) {
            return new RowSupport();
        }
    }

    private final class RowSupport extends WriteSupport<T> {
        private RecordConsumer consumer;
        private RowWriter out;

        @Override
        public WriteContext init(Configuration conf) {
            return new WriteContext(MessageTypeParser.parseMessageType(schema), Map.of());
        }

        @Override
        public void prepareForWrite(RecordConsumer recordConsumer) {
            consumer = recordConsumer;
            out = new RowWriter(consumer);
        }

        @Override
        public void write(T row) {
            out.column = 0;
            consumer.startMessage();
            columns.write(row, out);
            consumer.endMessage();
        }
    }

    /** A stream of Flink's as what Parquet writes to. Flink closes it. */
    private record FlinkOutput(FSDataOutputStream stream) implements OutputFile {
        @Override
        public PositionOutputStream create(long blockSize) {
            return new DelegatingPositionOutputStream(stream) {
                @Override
                public long getPos() throws IOException {
                    return FlinkOutput.this.stream.getPos();
                }

                @Override
                public void close() throws IOException {
                    flush();
                }
            };
        }

        @Override
        public PositionOutputStream createOrOverwrite(long blockSize) {
            return create(blockSize);
        }

        @Override
        public boolean supportsBlockSize() {
            return false;
        }

        @Override
        public long defaultBlockSize() {
            return 0;
        }
    }
}
