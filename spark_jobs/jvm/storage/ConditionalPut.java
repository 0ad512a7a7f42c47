package hybridbackfill.storage;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/** Creates an object only if there is none of its name: one request with If-None-Match. */
final class ConditionalPut {
  private ConditionalPut() {}

  /** Returns whether S3A serves a file system: only there a create has to be made conditional. */
  static boolean isNeeded(FileSystem fs) {
    return "s3a".equals(fs.getScheme());
  }

  /**
   * Creates an object.
   *
   * @throws FileAlreadyExistsException if an object of this name has another content. One with the
   *     same content was written by an earlier request of this process whose answer was lost.
   */
  static void put(FileSystem fs, Path path, byte[] content) throws IOException {
    try {
      // The cast: `must` of Hadoop 3.5 returns a builder of no type.
      FSDataOutputStream out =
          (FSDataOutputStream) fs.createFile(path)
              .create()
              .overwrite(true)
              .recursive()
              .must("fs.option.create.conditional.overwrite", true)
              .build();
      try {
        out.write(content);
      } catch (IOException e) {
        out.abort();
        throw e;
      }
      out.close();
    } catch (RemoteFileChangedException | FileAlreadyExistsException refused) {
      byte[] there;
      try (InputStream in = fs.open(path)) {
        there = in.readAllBytes();
      }
      if (!Arrays.equals(there, content)) {
        FileAlreadyExistsException error = new FileAlreadyExistsException(path.toString());
        error.initCause(refused);
        throw error;
      }
    }
  }
}
