package hybridbackfill.storage;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta logs in S3, each version of which one writer only can create.
 *
 * <p>Delta 4.4.0 knows of the writers of its own JVM only, and overwrites the commits of others.
 * Set by {@code spark.delta.logStore.s3a.impl}. Delta has a log store of its own that does this
 * since issue 7367 (not released with 4.4.0); once a release has it, this class can go.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
  public ConditionalLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf)
      throws IOException {
    FileSystem fs = path.getFileSystem(conf);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      bytes.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    if (overwrite) {
      try (FSDataOutputStream out = fs.create(path, true)) {
        out.write(bytes.toByteArray());
      }
      return;
    }
    try {
      ConditionalPut.put(fs, path, bytes.toByteArray());
    } catch (org.apache.hadoop.fs.FileAlreadyExistsException e) {
      throw new FileAlreadyExistsException(path.toString());
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }
}
