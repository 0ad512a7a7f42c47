package hybridbackfill.storage;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Checkpoint files in S3, of which each one that must not be overwritten is created conditionally.
 *
 * <p>Spark's own managers overwrite what another driver has written to the same checkpoint. Here
 * the later one of two drivers fails with "Multiple streaming queries are concurrently using …".
 * Set by {@code spark.sql.streaming.checkpointFileManagerClass}; paths of other file systems are
 * written as Spark does.
 */
public class ConditionalCheckpointFileManager extends FileSystemBasedCheckpointFileManager {
  public ConditionalCheckpointFileManager(Path path, Configuration conf) {
    super(path, conf);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    if (!ConditionalPut.isNeeded(fs())) {
      return super.createAtomic(path, overwrite);
    }
    if (!overwrite) {
      return new Held(path, new ByteArrayOutputStream());
    }
    try {
      // An object is there as a whole once it is closed, and not at all before.
      return new Upload(fs().createFile(path).create().overwrite(true).recursive().build());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static final class Upload extends CancellableFSDataOutputStream {
    private final FSDataOutputStream out;

    Upload(FSDataOutputStream out) {
      super(out);
      this.out = out;
    }

    @Override
    public void cancel() {
      out.abort();
    }
  }

  /** Small files are held in memory, so that they are sent with one request. */
  private final class Held extends CancellableFSDataOutputStream {
    private final Path path;
    private final ByteArrayOutputStream bytes;
    private boolean isDone;

    Held(Path path, ByteArrayOutputStream bytes) {
      super(bytes);
      this.path = path;
      this.bytes = bytes;
    }

    @Override
    public void close() throws IOException {
      if (!isDone) {
        isDone = true;
        ConditionalPut.put(fs(), path, bytes.toByteArray());
      }
    }

    @Override
    public void cancel() {
      isDone = true;
    }
  }
}
