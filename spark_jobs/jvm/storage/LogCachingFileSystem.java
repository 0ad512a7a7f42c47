package hybridbackfill.storage;

import java.io.EOFException;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.fs.s3a.S3AFileSystem;

/**
 * S3A that reads a commit of a Delta log once.
 *
 * <p>Before each commit of a stream Delta reads all commits since the log's last checkpoint, to find
 * the stream's last transaction: up to ten, each with two requests. A commit never changes; it is
 * kept by the ETag that the newest listing of the log shows, so a table that was deleted and made
 * again is read again.
 */
public class LogCachingFileSystem extends S3AFileSystem {
  private static final int FILES = 64;
  private static final long MAX_BYTES = 256 * 1024;
  private static final Map<String, Kept> KEPT =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Kept> eldest) {
          return size() > FILES;
        }
      };

  /** Takes in that a listing shows a file of a log. */
  static void listed(Path path, String etag, long size) {
    if (!path.getName().matches("\\d{20}\\.json")) {
      return;
    }
    synchronized (KEPT) {
      Kept kept = KEPT.get(path.toString());
      if (size > MAX_BYTES || etag == null) {
        KEPT.remove(path.toString());
      } else if (kept == null || kept.size != size || !kept.etag.equals(etag)) {
        KEPT.put(path.toString(), new Kept(etag, size));
      }
    }
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    Kept kept = kept(path);
    if (kept == null) {
      return super.open(path, bufferSize);
    }
    byte[] content = kept.content;
    if (content == null) {
      try (FSDataInputStream in = super.open(path, bufferSize)) {
        content = in.readAllBytes();
      }
      if (content.length != kept.size) {
        // Cut off on the way, or another one by now: nothing is kept, and the reader decides.
        return super.open(path, bufferSize);
      }
      kept.content = content;
    }
    return new FSDataInputStream(new Content(content));
  }

  @Override
  public CompletableFuture<FSDataInputStream> openFileWithOptions(
      Path path, OpenFileParameters parameters) throws IOException {
    if (kept(path) == null) {
      return super.openFileWithOptions(path, parameters);
    }
    return CompletableFuture.completedFuture(open(path, parameters.getBufferSize()));
  }

  private Kept kept(Path path) {
    synchronized (KEPT) {
      return KEPT.get(makeQualified(path).toString());
    }
  }

  /** A commit that was listed; its content once it was read. */
  private static final class Kept {
    private final String etag;
    private final long size;
    private volatile byte[] content;

    Kept(String etag, long size) {
      this.etag = etag;
      this.size = size;
    }
  }

  /** A file's content in memory. */
  private static final class Content extends FSInputStream {
    private final byte[] bytes;
    private int at;

    Content(byte[] bytes) {
      this.bytes = bytes;
    }

    @Override
    public void seek(long position) throws IOException {
      if (position < 0 || position > bytes.length) {
        throw new EOFException("No such position: " + position);
      }
      at = (int) position;
    }

    @Override
    public long getPos() {
      return at;
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }

    @Override
    public int read() {
      return at < bytes.length ? bytes[at++] & 0xff : -1;
    }

    @Override
    public int read(byte[] target, int offset, int length) {
      if (length == 0) {
        return 0;
      }
      int count = Math.min(length, bytes.length - at);
      if (count == 0) {
        return -1;
      }
      System.arraycopy(bytes, at, target, offset, count);
      at += count;
      return count;
    }

    @Override
    public int available() {
      return bytes.length - at;
    }
  }
}
