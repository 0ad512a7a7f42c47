package beside;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.connector.base.source.hybrid.HybridSource;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.OutputFileConfig;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/** What is measured: a pipeline by name, with its folders and its topic as options. */
final class Work {
    /** When the last chain went from files to topic, in milliseconds since 1970; 0 if never. */
    static final AtomicLong SWITCHED_AT_MS = new AtomicLong();

    private final Map<String, String> options;

    Work(Map<String, String> options) {
        this.options = options;
    }

    /** Adds the pipeline to a job. */
    void build(StreamExecutionEnvironment env) {
        switch (option("work")) {
            case "files" -> write(read(env, files()));
            case "topic" -> write(read(env, topic(OffsetsInitializer.earliest())));
            case "windows" -> count(env);
            case "chain" -> write(read(env, chain()));
            default -> throw new IllegalArgumentException("no such work: " + option("work"));
        }
    }

    private String option(String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("missing option: " + name);
        }
        return value;
    }

    /** Whether JSON is read by data binding, or else by the parser that is written for this row. */
    private boolean isBound() {
        return option("parser").equals("binding");
    }

    private FileSource<Event> files() {
        StreamFormat<Event> lines = isBound() ? new BoundJson.Lines() : new JsonLines();
        return FileSource.forRecordStreamFormat(lines, new Path(option("in"))).build();
    }

    /** The topic until the end that it has when the job begins, so that the job ends. */
    private KafkaSource<Event> topic(OffsetsInitializer start) {
        return KafkaSource.<Event>builder()
                .setBootstrapServers(option("servers"))
                .setTopics(option("topic"))
                .setStartingOffsets(start)
                .setBounded(OffsetsInitializer.latest())
                .setValueOnlyDeserializer(isBound() ? new BoundJson.Value() : new JsonValue())
                .build();
    }

    /** The topic begins a millisecond after the files end, as in the documentation of Flink. */
    private HybridSource<Event> chain() {
        long begin = Long.parseLong(option("history_end_ms")) + 1;
        KafkaSource<Event> live = topic(OffsetsInitializer.timestamp(begin));
        return HybridSource.builder(files())
                .addSource(
                        context -> {
                            SWITCHED_AT_MS.set(System.currentTimeMillis());
                            return live;
                        },
                        Boundedness.BOUNDED)
                .build();
    }

    private DataStream<Event> read(StreamExecutionEnvironment env, Source<Event, ?, ?> source) {
        return env.fromSource(
                source,
                WatermarkStrategy.noWatermarks(),
                "events",
                TypeInformation.of(Event.class));
    }

    private void count(StreamExecutionEnvironment env) {
        WatermarkStrategy<Event> anHourLate =
                WatermarkStrategy.<Event>forBoundedOutOfOrderness(Duration.ofHours(1))
                        .withTimestampAssigner((event, timestamp) -> event.at / 1000);
        env.fromSource(topic(OffsetsInitializer.earliest()), anHourLate, "events")
                .keyBy(event -> event.user)
                .window(TumblingEventTimeWindows.of(Duration.ofHours(1)))
                .aggregate(new HourlyCount.Sum(), new HourlyCount.Named())
                .sinkTo(sink(ParquetTable.counts()));
    }

    private void write(DataStream<Event> events) {
        events.sinkTo(sink(ParquetTable.events()));
    }

    private <T> FileSink<T> sink(ParquetTable<T> table) {
        return FileSink.forBulkFormat(new Path(option("out")), table)
                .withBucketAssigner(new BasePathBucketAssigner<>())
                .withOutputFileConfig(
                        OutputFileConfig.builder().withPartSuffix(".parquet").build())
                .build();
    }
}
