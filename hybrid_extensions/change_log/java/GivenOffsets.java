package hybridbackfill.log;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.storage.MemoryOffsetBackingStore;

/** The connector's offsets, in memory: the log keeps them, and gives the one to start from. */
public final class GivenOffsets extends MemoryOffsetBackingStore {
    @Override
    public void configure(WorkerConfig config) {
        super.configure(config);
        Object key = config.originals().get("hybrid.offset.key");
        if (key != null) {
            data.put(bytes(key), bytes(config.originals().get("hybrid.offset.value")));
        }
    }

    @Override
    public Set<Map<String, Object>> connectorPartitions(String connector) {
        return Set.of();
    }

    private static ByteBuffer bytes(Object text) {
        return ByteBuffer.wrap(text.toString().getBytes(StandardCharsets.UTF_8));
    }
}
