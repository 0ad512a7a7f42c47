package hybridbackfill.storage;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Checkpoint files on a disk, written without Hadoop's client.
 *
 * <p>That starts a process, {@code chmod}, for each file and for the file of its checksum, unless
 * its native library is installed. And its rename may replace a file that another driver has just
 * written; the link here does not. Set by {@code spark.sql.streaming.checkpointFileManagerClass},
 * for checkpoints on a disk only.
 */
public class LocalCheckpointFileManager extends FileSystemBasedCheckpointFileManager {
  public LocalCheckpointFileManager(Path path, Configuration conf) {
    super(path, conf);
    if (!isLocal()) {
      throw new IllegalArgumentException(path + " is not on a disk of this machine.");
    }
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    File file = new File(fs().makeQualified(path).toUri().getPath());
    // As Spark names them, so that nobody takes one for a file of the checkpoint.
    String name = "." + file.getName() + "." + UUID.randomUUID() + ".tmp";
    File written = new File(file.getParentFile(), name);
    try {
      OutputStream out = new BufferedOutputStream(Files.newOutputStream(written.toPath()), 1 << 16);
      return new Written(written.toPath(), file.toPath(), overwrite, out);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static final class Written extends CancellableFSDataOutputStream {
    private final java.nio.file.Path written;
    private final java.nio.file.Path file;
    private final boolean overwrite;
    private final OutputStream out;
    private boolean isDone;

    Written(
        java.nio.file.Path written, java.nio.file.Path file, boolean overwrite, OutputStream out) {
      super(out);
      this.written = written;
      this.file = file;
      this.overwrite = overwrite;
      this.out = out;
    }

    @Override
    public synchronized void close() throws IOException {
      if (isDone) {
        return;
      }
      isDone = true;
      try {
        out.close();
        if (overwrite) {
          // Of a file that Hadoop's client has written: it would be compared with the new one.
          Files.deleteIfExists(file.resolveSibling("." + file.getFileName() + ".crc"));
          Files.move(written, file, StandardCopyOption.ATOMIC_MOVE);
        } else {
          publish();
        }
      } catch (FileAlreadyExistsException e) {
        throw new org.apache.hadoop.fs.FileAlreadyExistsException(file + " already exists");
      } finally {
        Files.deleteIfExists(written);
      }
    }

    private void publish() throws IOException {
      try {
        Files.createLink(file, written);
      } catch (FileAlreadyExistsException e) {
        throw e;
      } catch (UnsupportedOperationException | FileSystemException e) {
        // A disk without links, such as exFAT: as Hadoop's client does it, where the query lock
        // alone keeps two drivers apart.
        if (Files.exists(file)) {
          throw new FileAlreadyExistsException(file.toString());
        }
        Files.move(written, file, StandardCopyOption.ATOMIC_MOVE);
      }
    }

    @Override
    public synchronized void cancel() {
      if (isDone) {
        return;
      }
      isDone = true;
      try {
        out.close();
        Files.deleteIfExists(written);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
