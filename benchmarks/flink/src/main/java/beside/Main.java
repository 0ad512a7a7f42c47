package beside;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A cluster in this process that does one piece of work for each line of standard input.
 *
 * <p>A line is a JSON object of options, see {@link Work}. Each is answered by a line of JSON on
 * standard output: the seconds that it took, and when a chain switched.
 */
public final class Main {
    private static final int SLOTS = 2;
    private static final Duration CHECKPOINTS = Duration.ofSeconds(1);
    private static final ObjectMapper JSON = new ObjectMapper();

    private Main() {}

    public static void main(String[] arguments) {
        Configuration settings = new Configuration();
        settings.set(RestOptions.BIND_PORT, "0");
        MiniClusterConfiguration setup =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(settings)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(SLOTS)
                        .build();
        try (MiniCluster cluster = new MiniCluster(setup)) {
            cluster.start();
            BufferedReader lines =
                    new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(JSON.writeValueAsString(run(cluster, options(line))));
            }
        } catch (Exception error) {
            error.printStackTrace();
            // Threads of the cluster would keep the process alive.
            System.exit(1);
        }
    }

    private static Map<String, String> options(String line) throws IOException {
        Map<String, String> options = new TreeMap<>();
        JSON.readTree(line)
                .fields()
                .forEachRemaining(each -> options.put(each.getKey(), each.getValue().asText()));
        return options;
    }

    private static Map<String, Object> run(MiniCluster cluster, Map<String, String> options)
            throws Exception {
        long begun = System.nanoTime();
        Configuration settings = new Configuration();
        settings.set(
                CheckpointingOptions.CHECKPOINTS_DIRECTORY,
                Path.of(options.get("checkpoints")).toUri().toString());
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(settings);
        env.setParallelism(SLOTS);
        env.getConfig().enableObjectReuse();
        env.enableCheckpointing(CHECKPOINTS.toMillis(), CheckpointingMode.EXACTLY_ONCE);
        new Work(options).build(env);
        cluster.executeJobBlocking(env.getStreamGraph().getJobGraph());
        return Map.of(
                "seconds", (System.nanoTime() - begun) / 1e9,
                "switched_at_ms", Work.SWITCHED_AT_MS.get());
    }
}
