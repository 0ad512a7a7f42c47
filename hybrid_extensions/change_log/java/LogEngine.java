package hybridbackfill.log;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;

/**
 * Debezium's engine in a process of its own. Standard input has its settings, then an answer to each
 * batch: the index of the last record that is kept, which is acknowledged to the database, or -1.
 * Standard output has the batches. At the end of its input the process ends at once.
 */
public final class LogEngine {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final DataOutputStream out;
    private final LinkedBlockingQueue<Integer> answers = new LinkedBlockingQueue<>();
    private final Converter keys;
    private final Converter values;

    private LogEngine(DataOutputStream out, Map<String, String> settings) throws Exception {
        this.out = out;
        this.keys = converter(settings, "key.converter");
        this.values = converter(settings, "value.converter");
    }

    public static void main(String[] arguments) throws Exception {
        var file = new FileOutputStream(FileDescriptor.out);
        var out = new DataOutputStream(new BufferedOutputStream(file, 1 << 16));
        // What libraries print is no part of the batches.
        System.setOut(System.err);
        var in = new DataInputStream(System.in);
        byte[] given = new byte[in.readInt()];
        in.readFully(given);
        var settings = new HashMap<String, String>();
        JSON.readTree(given).properties().forEach(
                each -> settings.put(each.getKey(), each.getValue().asText()));
        new LogEngine(out, settings).run(in, settings);
        // Threads of a connector that failed may go on.
        Runtime.getRuntime().halt(0);
    }

    private void run(DataInputStream in, Map<String, String> settings) throws IOException {
        var reader = new Thread(() -> readAnswers(in), "answers");
        reader.setDaemon(true);
        reader.start();
        var properties = new Properties();
        properties.putAll(settings);
        properties.setProperty("offset.storage", GivenOffsets.class.getName());
        var why = new String[] {"it ended by itself"};
        try {
            DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                    .using(properties)
                    .using((success, message, error) -> why[0] = message + causes(error))
                    .notifying(this::handle)
                    .build()
                    .run();
        } catch (RuntimeException refused) {
            why[0] = "its settings are refused" + causes(refused);
        }
        out.writeInt(-1);
        write(why[0].getBytes("UTF-8"));
        out.flush();
    }

    private void readAnswers(DataInputStream in) {
        try {
            while (true) {
                answers.add(in.readInt());
            }
        } catch (IOException ended) {
            Runtime.getRuntime().halt(1);
        }
    }

    private void handle(
            List<RecordChangeEvent<SourceRecord>> batch,
            DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
            throws InterruptedException {
        try {
            out.writeInt(batch.size());
            for (var event : batch) {
                SourceRecord record = event.record();
                write(record.topic().getBytes("UTF-8"));
                write(keys.fromConnectData(record.topic(), record.keySchema(), record.key()));
                write(values.fromConnectData(record.topic(), record.valueSchema(), record.value()));
                write(JSON.writeValueAsBytes(List.of(record.sourcePartition(), record.sourceOffset())));
            }
            out.flush();
        } catch (IOException gone) {
            Runtime.getRuntime().halt(1);
        }
        int kept = answers.take();
        if (kept >= 0) {
            committer.markProcessed(batch.get(kept));
            committer.markBatchFinished();
        }
    }

    private void write(byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            out.write(bytes);
        }
    }

    private static Converter converter(Map<String, String> settings, String prefix) throws Exception {
        String name = settings.getOrDefault(prefix, "org.apache.kafka.connect.json.JsonConverter");
        var made = (Converter) Class.forName(name).getDeclaredConstructor().newInstance();
        var own = new HashMap<String, String>();
        settings.forEach((key, value) -> {
            if (key.startsWith(prefix + ".")) {
                own.put(key.substring(prefix.length() + 1), value);
            }
        });
        made.configure(own, prefix.startsWith("key"));
        return made;
    }

    private static String causes(Throwable error) {
        var text = new StringBuilder();
        for (var each = error; each != null; each = each.getCause()) {
            text.append(": ").append(each.getMessage());
        }
        return text.toString();
    }
}
